// torch_tile._C: converts arguments and calls; decides nothing.
#include "runtime/compiler/CompileGraph.h"
#include "runtime/compiler/CompilerLibrary.h"
#include "runtime/compiler/PerfMap.h"
#include "runtime/launch/gpu/Assemble.h"
#include "runtime/memory/BufferPool.h"
#include "runtime/memory/OperatorAllocator.h"
#include "runtime/python/Bindings.h"
#include "runtime/python/Errors.h"
#include "runtime/python/KernelLauncher.h"
#include "runtime/python/LaunchTimes.h"
#include "runtime/python/ProgramObject.h"
#include "support/FaultPoint.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace py = pybind11;

namespace torch_tile::runtime {
namespace {

/// The Python function `dump(file, data)`; data that is no UTF-8 text arrives as bytes.
void callDump(const py::function &dump, const char *file, std::string_view data) {
  py::gil_scoped_acquire gil;
  PyObject *text = PyUnicode_DecodeUTF8(data.data(), static_cast<Py_ssize_t>(data.size()), nullptr);
  if (!text) {
    PyErr_Clear();
    dump(file, py::bytes(data.data(), data.size()));
    return;
  }
  dump(file, py::reinterpret_steal<py::str>(text));
}

py::object compileGraphForPython(const std::string &text, std::map<std::string, std::string> options,
                                 const std::optional<std::string> &cacheFolder, int64_t cacheLimitBytes,
                                 const std::optional<py::function> &dump, const py::list &callables, bool forceCompile,
                                 bool poison, const std::string &device, std::string architecture,
                                 const std::string &matmulLibrary, int numThreads, std::vector<std::string> cacheLayers,
                                 bool dumpOnMiss) {
  CompileOptions compileOptions;
  compileOptions.compilerOptions = std::move(options);
  compileOptions.cacheFolder = cacheFolder.value_or("");
  compileOptions.cacheLimitBytes = cacheLimitBytes;
  compileOptions.cacheLayers = std::move(cacheLayers);
  compileOptions.numThreads = numThreads;
  compileOptions.dumpOnMiss = dumpOnMiss;
  compileOptions.forceCompile = forceCompile;
  compileOptions.architecture = std::move(architecture);
  compileOptions.program.poison = poison;
  compileOptions.program.matmul = parseMatmulLibrary(matmulLibrary);
  compileOptions.program.device = c10::Device(device);
  if (dump)
    compileOptions.dump = [&](const char *file, std::string_view data) { callDump(*dump, file, data); };
  CompiledGraph compiled;
  Status status;
  {
    py::gil_scoped_release released;
    status = compileGraph(text, compileOptions, compiled);
  }
  orThrow(status);
  return makeProgram(std::move(compiled), callables);
}

py::object loadArtifactForPython(const py::bytes &bytes, const py::list &callables, bool poison,
                                 const std::string &matmulLibrary) {
  std::string_view view = bytes;
  CompiledGraph compiled;
  Status status;
  {
    py::gil_scoped_release released;
    ProgramOptions options;
    options.poison = poison;
    options.matmul = parseMatmulLibrary(matmulLibrary);
    status = loadArtifact({reinterpret_cast<const uint8_t *>(view.data()), view.size()}, options, compiled);
  }
  orThrow(status);
  return makeProgram(std::move(compiled), callables);
}

py::dict bufferStatistics() {
  BufferPool::Statistics statistics = BufferPool::get().statistics();
  py::dict result;
  result["used_bytes"] = statistics.usedBytes;
  result["kept_bytes"] = statistics.keptBytes;
  result["peak_bytes"] = statistics.peakBytes;
  result["requests"] = statistics.numRequests;
  result["mapped"] = statistics.numMapped;
  return result;
}

/// A fault that tests ask for (support/FaultPoint.h), on this side of the border.
void raiseFault(std::string_view kind) {
  if (kind == "bad_alloc")
    throw std::bad_alloc();
  if (kind == "logic_error")
    throw std::logic_error("injected fault");
  TORCH_INTERNAL_ASSERT(kind != "assert", "injected fault");
  TORCH_CHECK(false, "injected fault");
}

int injectFault(const std::string &fault) {
  return FaultPoints::arm(fault, &raiseFault) + CompilerLibrary::get().injectFault(fault);
}

std::pair<std::vector<std::string>, std::vector<std::string>> describeProcessor(const std::string &name) {
  std::istringstream text(CompilerLibrary::get().describeProcessor(name));
  std::vector<std::string> lists[2];
  for (auto &list : lists) {
    std::string line, item;
    std::getline(text, line);
    std::istringstream items(line);
    while (std::getline(items, item, ','))
      list.push_back(item);
  }
  return {lists[0], lists[1]};
}

py::dict version() {
  py::dict result;
  result["torch_tile"] = TORCH_TILE_VERSION;
  result["compiler"] = CompilerLibrary::get().version();
  return result;
}

} // namespace
} // namespace torch_tile::runtime

PYBIND11_MODULE(_C, m) {
  using namespace torch_tile::runtime;
  installOperatorAllocator();
  bindProgram(m);
  bindKernels(m);
  bindCache(m);
  bindPackage(m);
#ifdef TORCH_TILE_HAS_FX
  bindFx(m);
#endif
  m.def("compile_graph", &compileGraphForPython, py::arg("text"), py::arg("options"), py::arg("cache_dir"),
        py::arg("cache_limit_bytes"), py::arg("dump"), py::arg("pycalls"), py::arg("force_compile") = false,
        py::arg("poison") = false, py::arg("device") = "cpu", py::arg("architecture") = "",
        py::arg("matmul_library") = "auto", py::arg("threads") = 0,
        py::arg("cache_layers") = std::vector<std::string>(), py::arg("dump_on_miss") = false);
  m.def(
      "graph_key",
      [](const std::string &text, const std::map<std::string, std::string> &options) {
        torch_tile::artifact::Hash key = graphKey(text, options);
        return py::bytes(reinterpret_cast<const char *>(key.bytes), sizeof key.bytes);
      },
      py::arg("text"), py::arg("options"));
  py::class_<TensorState>(m, "TensorState", py::module_local()) // the extension may be loaded twice
      .def(py::init<const at::Tensor &, bool>(), py::arg("tensor"), py::arg("keeps_content") = false)
      .def("is_same", &TensorState::isSame, py::arg("tensor"))
      .def("is_of", &TensorState::isOf, py::arg("tensor"))
      .def_property_readonly("is_expired", &TensorState::isExpired);
  m.def("planned_steps", &plannedSteps, py::arg("program"), py::arg("symbols"));
  m.def("set_perf_map", &setPerfMap, py::arg("enabled"));
  m.def("rebind_program", &rebindProgram, py::arg("program"), py::arg("other"));
  m.def("freeze_program", &freezeProgram, py::arg("program"), py::arg("arguments"), py::arg("constants"),
        py::arg("packable"), py::arg("otherwise"));
  m.def(
      "prefers_onednn", [](const std::string &library) { return prefersOneDnn(parseMatmulLibrary(library)); },
      py::arg("matmul_library"));
  m.def("load_artifact", &loadArtifactForPython, py::arg("data"), py::arg("pycalls") = py::list(),
        py::arg("poison") = false, py::arg("matmul_library") = "auto");
  m.def("assembler", &assemblerName);
  m.def("time_launches", &timeLaunches, py::arg("call"), py::arg("names"), py::arg("device"));
  m.def("set_compiler_library", &CompilerLibrary::setPath, py::arg("path"));
  m.def("version", &version);
  m.def("describe_processor", &describeProcessor, py::arg("name"));
  m.def("set_buffer_limit", [](size_t numBytes) { BufferPool::get().setLimit(numBytes); }, py::arg("num_bytes"));
  m.def("empty_cache", [] { BufferPool::get().clear(); });
  m.def("inject_fault", &injectFault, py::arg("fault"));
  m.def("buffer_statistics", &bufferStatistics);
}
