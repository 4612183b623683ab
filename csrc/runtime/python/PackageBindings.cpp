// Packages (artifact/Package.h) for torch_tile.aot.
#include "artifact/Serialize.h"
#include "runtime/compiler/CompilerLibrary.h"
#include "runtime/model/PackagedModel.h"
#include "runtime/package/CpuFeatures.h"
#include "runtime/package/PackageFile.h"
#include "runtime/package/SourceLines.h"
#include "runtime/python/Bindings.h"
#include "runtime/python/Errors.h"
#include "runtime/python/FailureNote.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <map>

namespace py = pybind11;

namespace torch_tile::runtime {
namespace {

using namespace artifact;

py::bytes compileArtifact(const std::string &text, const std::map<std::string, std::string> &options) {
  std::vector<uint8_t> bytes;
  Status status;
  {
    py::gil_scoped_release released;
    std::string lines;
    for (const auto &[key, value] : options)
      lines += key + "=" + value + "\n";
    status = CompilerLibrary::get().compile({text, lines, {}, {}}, bytes);
  }
  orThrow(status);
  return py::bytes(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

/// What a package says of a program: operators it calls, functions of Sleef, symbols with where they come from.
py::dict describeArtifact(const py::bytes &bytes) {
  std::string_view view = bytes;
  Artifact artifact;
  orThrow(deserialize({reinterpret_cast<const uint8_t *>(view.data()), view.size()}, artifact));
  py::list operators, symbols;
  artifact.forEachBody([&](const Body &body) {
    for (const Step &step : body.steps)
      if (auto *call = std::get_if<Extern>(&step.action))
        operators.append(call->op + (call->overload.empty() ? "" : "." + call->overload));
  });
  for (const Kernel &kernel : artifact.kernels)
    for (const std::string &symbol : kernel.externalSymbols)
      symbols.append(symbol);
  py::dict result;
  result["operators"] = operators;
  result["functions"] = symbols;
  result["needs_torch"] = !std::all_of(artifact.steps.begin(), artifact.steps.end(), runsWithoutTorch);
  result["kernels"] = artifact.kernels.size();
  return result;
}

py::object openPackage(const std::string &path) {
  std::shared_ptr<const PackageFile> file;
  orThrow(PackageFile::open(path, file));
  return py::cast(std::const_pointer_cast<PackageFile>(file));
}

py::list variantsOf(const PackageFile &file) {
  py::list rows;
  for (const Variant &variant : file.package().variants) {
    py::dict row;
    row["target"] = variant.target;
    row["features"] = variant.features;
    row["architecture"] = variant.architecture;
    row["needs_torch"] = variant.needsTorch;
    row["program_bytes"] = file.package().blobs[variant.program].sizeBytes;
    rows.append(row);
  }
  return rows;
}

py::list inputsOf(const PackageFile &file) {
  py::list rows;
  for (const PackageInput &input : file.package().inputs) {
    py::list ranges;
    for (PackageInput::Range range : input.sizes)
      ranges.append(py::make_tuple(range.min, range.max));
    bool isTensor = input.kind == PackageInput::Kind::Tensor;
    rows.append(py::make_tuple(input.name, isTensor ? nameOf(input.type) : "int", ranges));
  }
  return rows;
}

py::list constantsOf(const PackageFile &file) {
  py::list rows;
  for (const PackageConstant &constant : file.package().constants)
    rows.append(py::make_tuple(constant.name, nameOf(constant.type), constant.sizes, constant.strides, constant.blob,
                               constant.isWritten));
  return rows;
}

uint32_t choose(const PackageFile &file, int capability) {
  uint32_t variant = 0;
  orThrow(chooseVariant(file.package(), capability, variant));
  return variant;
}

std::shared_ptr<PackagedModel> loadModel(std::shared_ptr<PackageFile> file, uint32_t variant, const std::string &device,
                                         const std::string &matmulLibrary) {
  TORCH_CHECK_VALUE(variant < file->package().variants.size(), "the package has no variant ", variant);
  ProgramOptions options;
  options.device = c10::Device(device);
  options.matmul = parseMatmulLibrary(matmulLibrary);
  std::shared_ptr<PackagedModel> model;
  Status status;
  {
    py::gil_scoped_release released;
    status = PackagedModel::load(std::move(file), variant, options, model);
  }
  orThrow(status);
  return model;
}

/// The results; null with a Python exception, and where the model has failed.
PyObject *runOrRaise(PackagedModel &model, const py::list &arguments, FailurePlace &failure) {
  HANDLE_TH_ERRORS
  std::vector<c10::IValue> values;
  for (py::handle argument : arguments) {
    if (THPVariable_Check(argument.ptr()))
      values.emplace_back(THPVariable_Unpack(argument.ptr()));
    else
      values.emplace_back(py::cast<int64_t>(argument));
  }
  std::vector<c10::IValue> results;
  {
    py::gil_scoped_release released;
    results = model.run(values, failure);
    values.clear();
  }
  py::list outputs;
  for (c10::IValue &result : results) {
    if (result.isTensor())
      outputs.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(result).toTensor())));
    else if (result.isInt())
      outputs.append(result.toInt());
    else
      outputs.append(py::none());
  }
  return outputs.release().ptr();
  END_HANDLE_TH_ERRORS
}

/// `describe` is called with an exception of a step (FailureNote.h).
py::list runModel(PackagedModel &model, const py::list &arguments, const py::object &describe) {
  FailurePlace failure;
  PyObject *results = runOrRaise(model, arguments, failure);
  if (!results && !failure.steps.empty() && !describe.is_none())
    noteFailure(describe.ptr(), model.program().artifact(), failure);
  if (!results)
    throw py::error_already_set();
  return py::reinterpret_steal<py::list>(results);
}

py::list sourceLinesOf(const PackageFile &file, uint32_t variant) {
  TORCH_CHECK_VALUE(variant < file.package().variants.size(), "the package has no variant ", variant);
  py::list rows;
  const SourceLines sources = SourceLines::of(file, file.package().variants[variant]);
  for (const auto &[number, line] : sources.lines())
    rows.append(py::make_tuple(number, line.op, line.place, line.raisesRuntimeError));
  return rows;
}

py::bytes blobOf(const PackageFile &file, uint32_t number) {
  TORCH_CHECK_VALUE(number < file.package().blobs.size(), "the package has no blob ", number);
  std::span<const uint8_t> bytes;
  orThrow(readBlob(file.bytes(), file.package().blobs[number], bytes));
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

Status verified(const PackageFile &file) {
  py::gil_scoped_release released;
  return file.verify();
}

} // namespace

void bindPackage(py::module_ &m) {
  m.def("compile_artifact", &compileArtifact, py::arg("text"), py::arg("options"));
  m.def("describe_artifact", &describeArtifact, py::arg("data"));
  m.def("processor_features", [](const std::string &target) -> py::object {
    std::vector<std::string> features;
    return featuresOf(target, features) ? py::cast(features) : py::none();
  });
  m.def("processor_architecture", &processorArchitecture);
  m.def("open_package", &openPackage, py::arg("path"));
  py::class_<PackageFile, std::shared_ptr<PackageFile>>(m, "PackageFile", py::module_local())
      .def_property_readonly("producer", [](const PackageFile &file) { return file.package().producer; })
      .def_property_readonly("torch_version", [](const PackageFile &file) { return file.package().torchVersion; })
      .def_property_readonly("metadata", [](const PackageFile &file) { return file.package().metadata; })
      .def_property_readonly("inputs", &inputsOf)
      .def_property_readonly("constants", &constantsOf)
      .def_property_readonly("variants", &variantsOf)
      .def("blob", &blobOf, py::arg("number"))
      .def("source_lines", &sourceLinesOf, py::arg("variant"))
      .def("choose", &choose, py::arg("capability") = 0)
      .def("verify", [](const PackageFile &file) { orThrow(verified(file)); })
      .def("load", &loadModel, py::arg("variant"), py::arg("device"), py::arg("matmul_library") = "auto");
  py::class_<PackagedModel, std::shared_ptr<PackagedModel>>(m, "PackagedModel", py::module_local())
      .def("run", &runModel, py::arg("arguments"), py::arg("describe") = py::none())
      .def("constant", [](const PackagedModel &model, uint32_t number) { return model.constant(number); })
      .def_property_readonly("steps", [](const PackagedModel &model) { return print(model.program().artifact()); });
}

} // namespace torch_tile::runtime
