// A standalone kernel as a Python callable: launcher(gx, gy, gz, ..., *arguments).
#include "runtime/python/KernelLauncher.h"

#include "artifact/StandaloneKernel.h"
#include "runtime/compiler/CompilerLibrary.h"
#include "runtime/compiler/KernelTable.h"
#include "runtime/launch/cpu/CpuLaunch.h"
#include "runtime/launch/gpu/Assemble.h"
#include "runtime/launch/gpu/GpuLaunch.h"
#include "runtime/python/Errors.h"
#include "support/PublishedOnce.h"

#include <ATen/record_function.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/SmallVector.h>
#include <pybind11/stl.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include <bit>
#include <memory>
#include <optional>
#include <vector>

namespace py = pybind11;

namespace torch_tile::runtime {
namespace {

/// Below this estimate the GIL is kept: giving it away costs as much.
constexpr int64_t gilCostNs = 20000;

struct Variant {
  artifact::StandaloneKernel info;
  std::shared_ptr<const LoadedKernel> code;
};

struct Launcher {
  Variant distinct;
  /// Made at the first launch that needs it, which several threads may come to at once.
  PublishedOnce<Variant> aliased;
  /// Per Python argument: `a` becomes the next kernel argument, `-` is dropped, `(` and `)` hold those of a tuple.
  std::string plan;
  /// What comes between the grid and the arguments. Of Triton's seven, the last three are metadata and hooks.
  int64_t numIgnored = 0;
  py::object makeAliased;
};

struct LauncherObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Launcher *launcher;
};

void load(std::string_view bytes, Variant &variant) {
  orThrow(artifact::deserialize({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}, variant.info));
  artifact::Kernel &kernel = variant.info.kernel;
  Status status;
  {
    py::gil_scoped_release released;
    status = loadKernel(kernel, kernel.code, variant.code);
  }
  orThrow(status);
  kernel.code.clear();
}

/// The code for arguments that may share memory. Made aside, for Python runs meanwhile and may run other launches.
const Variant &aliasedVariant(Launcher &launcher) {
  if (const Variant *variant = launcher.aliased.get())
    return *variant;
  auto made = std::make_unique<Variant>();
  load(static_cast<std::string>(launcher.makeAliased().cast<py::bytes>()), *made);
  return *launcher.aliased.publish(std::move(made));
}

/// The arguments of one launch, in the order of the kernel's.
struct Arguments {
  Arguments(const std::string &types, bool isForGpu) : types(types), isForGpu(isForGpu) {}

  const std::string &types;
  bool isForGpu;
  size_t next = 0;
  c10::SmallVector<void *, 16> pointers;
  c10::SmallVector<int64_t, 16> integers;
  struct Range {
    uintptr_t begin, end;
  };
  c10::SmallVector<Range, 16> storages;
  bool mayOverlap = false;
  std::optional<c10::Device> device; // of the tensors, on GPU
  bool keepsTensors = false;
  std::vector<c10::IValue> tensors; // for a profiler

  void add(PyObject *value) {
    TORCH_CHECK_TYPE(next < types.size(), "a kernel of ", types.size(), " arguments was given more");
    char type = types[next++];
    switch (type) {
    case 'p':
      return addPointer(value);
    case 'i':
      return addInteger(value);
    default:
      return addFloat(value, type);
    }
  }

  /// Kernels read memory as it is.
  void checkMemory(const at::Tensor &tensor) const {
    TORCH_CHECK_VALUE(tensor.layout() == at::kStrided && tensor.has_storage() && !tensor.is_neg() && !tensor.is_conj(),
                      "pointer argument ", next - 1, " expected a tensor whose elements lie in memory as they are");
    TORCH_CHECK_VALUE(tensor.storage().data() || tensor.numel() == 0, "pointer argument ", next - 1,
                      " is a tensor without memory");
  }

  void addPointer(PyObject *value) {
    if (THPVariable_Check(value)) {
      const at::Tensor &tensor = THPVariable_Unpack(value);
      if (isForGpu)
        checkDevice(tensor.device());
      else
        TORCH_CHECK_VALUE(tensor.device().is_cpu(), "pointer argument ", next - 1, " is on ", tensor.device(),
                          ", expected a tensor in CPU memory");
      checkMemory(tensor);
      void *pointer = tensor.mutable_data_ptr(); // memory of its own, where that is copied on write
      const at::Storage &storage = tensor.storage();
      auto begin = reinterpret_cast<uintptr_t>(storage.data());
      addRange({begin, begin + storage.nbytes()});
      pointers.push_back(pointer);
      if (C10_UNLIKELY(keepsTensors))
        tensors.emplace_back(tensor);
      return;
    }
    if (value == Py_None) {
      pointers.push_back(nullptr);
      return;
    }
    mayOverlap = true;
    if (PyLong_Check(value)) {
      pointers.push_back(reinterpret_cast<void *>(PyLong_AsUnsignedLongLongMask(value)));
      return;
    }
    py::object method = py::reinterpret_steal<py::object>(PyObject_GetAttrString(value, "data_ptr"));
    if (!method) {
      PyErr_Clear();
      TORCH_CHECK_TYPE(false, "pointer argument ", next - 1, " expected a tensor, an int or None, got ",
                       Py_TYPE(value)->tp_name);
    }
    pointers.push_back(reinterpret_cast<void *>(method().cast<uintptr_t>()));
  }

  void checkDevice(c10::Device found) {
    TORCH_CHECK_VALUE(found.is_cuda() && (!device || *device == found), "pointer argument ", next - 1, " is on ", found,
                      ", expected a tensor on ", device ? device->str() : "a CUDA device");
    device = found;
  }

  void addRange(Range range) {
    for (const Range &other : storages)
      mayOverlap |= range.begin < other.end && other.begin < range.end;
    storages.push_back(range);
  }

  void addInteger(PyObject *value) {
    py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(value));
    if (!index)
      throw py::error_already_set();
    auto bits = static_cast<int64_t>(PyLong_AsUnsignedLongLongMask(index.ptr()));
    if (PyErr_Occurred())
      throw py::error_already_set();
    integers.push_back(bits);
  }

  void addFloat(PyObject *value, char type) {
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred())
      throw py::error_already_set();
    if (type == 'd')
      integers.push_back(std::bit_cast<int64_t>(number));
    else if (type == 'f')
      integers.push_back(std::bit_cast<uint32_t>(static_cast<float>(number)));
    else if (type == 'h')
      integers.push_back(c10::Half(static_cast<float>(number)).x);
    else
      integers.push_back(c10::BFloat16(static_cast<float>(number)).x);
  }

  /// Walks the plan along the Python arguments; `position` is moved past a tuple's end.
  void addAll(PyObject *const *values, size_t count, const std::string &plan, size_t &position) {
    size_t used = 0;
    for (; position < plan.size() && plan[position] != ')'; ++position) {
      TORCH_CHECK_TYPE(used < count, "a launch with too few arguments: ", count);
      PyObject *value = values[used++];
      if (plan[position] == 'a') {
        add(value);
      } else if (plan[position] == '(') {
        ++position;
        py::object items = py::reinterpret_steal<py::object>(PySequence_Fast(value, "expected a tuple"));
        if (!items)
          throw py::error_already_set();
        addAll(PySequence_Fast_ITEMS(items.ptr()), static_cast<size_t>(PySequence_Fast_GET_SIZE(items.ptr())), plan,
               position);
      }
    }
  }
};

/// Arguments of a kernel on GPU are words in the kernel's own order.
void launchOnGpu(const GpuKernel &kernel, const Arguments &arguments, const int64_t (&grid)[3]) {
  TORCH_CHECK_VALUE(arguments.device, "expected a tensor on a CUDA device among the arguments, got none");
  c10::SmallVector<uint64_t, 32> values;
  size_t nextPointer = 0, nextInteger = 0;
  for (char type : arguments.types)
    values.push_back(type == 'p' ? reinterpret_cast<uint64_t>(arguments.pointers[nextPointer++])
                                 : static_cast<uint64_t>(arguments.integers[nextInteger++]));
  py::gil_scoped_release released; // loading the kernel, and a full queue, take their time
  GpuScope scope(*arguments.device);
  launchGpu(kernel, scope, values, grid);
}

int64_t toInt(PyObject *value) {
  int64_t result = PyLong_AsLongLong(value);
  if (result == -1 && PyErr_Occurred())
    throw py::error_already_set();
  return result;
}

void launch(Launcher &launcher, PyObject *const *values, size_t count) {
  size_t leading = 3 + static_cast<size_t>(launcher.numIgnored);
  TORCH_CHECK_TYPE(count >= leading, "expected a grid of three sizes and arguments");
  int64_t grid[3] = {toInt(values[0]), toInt(values[1]), toInt(values[2])};
  Arguments arguments(launcher.distinct.info.arguments, launcher.distinct.code->gpu != nullptr);
  at::RecordFunction event(at::RecordScope::FUNCTION);
  arguments.keepsTensors = event.isActive() && event.needsInputs();
  size_t position = 0;
  arguments.addAll(values + leading, count - leading, launcher.plan, position);
  TORCH_CHECK_TYPE(arguments.next == arguments.types.size(), "a kernel of ", arguments.types.size(),
                   " arguments was given ", arguments.next);
  const Variant *variant = &launcher.distinct;
  if (C10_UNLIKELY(arguments.mayOverlap && launcher.makeAliased))
    variant = &aliasedVariant(launcher);
  int64_t numPrograms = 0;
  bool isTooLarge = __builtin_mul_overflow(grid[0], grid[1], &numPrograms) ||
                    __builtin_mul_overflow(numPrograms, grid[2], &numPrograms);
  TORCH_CHECK_VALUE(!isTooLarge && grid[0] >= 0 && grid[1] >= 0 && grid[2] >= 0,
                    "expected a grid of sizes from 0 on, got (", grid[0], ", ", grid[1], ", ", grid[2], ")");
  if (C10_UNLIKELY(event.isActive()))
    event.before(variant->info.kernel.name.c_str(),
                 c10::ArrayRef<const c10::IValue>(arguments.tensors.data(), arguments.tensors.size()));
  if (variant->code->gpu)
    return launchOnGpu(*variant->code->gpu, arguments, grid);
  if (variant->info.needsGrid)
    arguments.integers.append(std::begin(grid), std::end(grid));
  KernelArgs args{arguments.pointers.data(), arguments.integers.data()};
  CpuGrid cpuGrid{numPrograms, variant->info.programCostNs, variant->info.scratchBytes};
  bool hasHooks = launcher.numIgnored == 6;
  PyObject *metadata = hasHooks ? values[leading - 3] : nullptr;
  auto callHook = [&](size_t index) {
    if (hasHooks && values[index] != Py_None)
      py::reinterpret_borrow<py::object>(values[index])(py::reinterpret_borrow<py::object>(metadata));
  };
  callHook(leading - 2);
  if (cpuGrid.totalCostNs() < gilCostNs) {
    launchCpu(variant->code->function, args, cpuGrid);
  } else {
    py::gil_scoped_release released;
    launchCpu(variant->code->function, args, cpuGrid);
  }
  callHook(leading - 1);
}

PyObject *callLauncher(PyObject *self, PyObject *const *values, size_t count, PyObject *names) {
  try {
    TORCH_CHECK_TYPE(!names || PyTuple_GET_SIZE(names) == 0, "a launcher takes no keyword arguments");
    launch(*reinterpret_cast<LauncherObject *>(self)->launcher, values, static_cast<size_t>(PyVectorcall_NARGS(count)));
    Py_RETURN_NONE;
  } catch (py::error_already_set &error) {
    error.restore();
  } catch (const c10::TypeError &error) {
    PyErr_SetString(PyExc_TypeError, error.what_without_backtrace());
  } catch (const c10::ValueError &error) {
    PyErr_SetString(PyExc_ValueError, error.what_without_backtrace());
  } catch (const c10::IndexError &error) {
    PyErr_SetString(PyExc_IndexError, error.what_without_backtrace());
  } catch (const c10::Error &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

void destroyLauncher(PyObject *self) {
  delete reinterpret_cast<LauncherObject *>(self)->launcher;
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject *launcherType = nullptr;

void makeLauncherType() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(LauncherObject, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(&destroyLauncher)},
                                {Py_tp_call, reinterpret_cast<void *>(&PyVectorcall_Call)},
                                {Py_tp_members, members},
                                {0, nullptr}};
  static PyType_Spec spec = {"torch_tile._C.KernelLauncher", sizeof(LauncherObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  launcherType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  if (!launcherType)
    throw py::error_already_set();
}

py::object makeLauncher(const py::bytes &kernel, std::string plan, int64_t numIgnored, py::object makeAliased) {
  auto launcher = std::make_unique<Launcher>();
  launcher->plan = std::move(plan);
  launcher->numIgnored = numIgnored;
  if (!makeAliased.is_none())
    launcher->makeAliased = std::move(makeAliased);
  load(static_cast<std::string_view>(kernel), launcher->distinct);
  auto *object = reinterpret_cast<LauncherObject *>(launcherType->tp_alloc(launcherType, 0));
  if (!object)
    throw py::error_already_set();
  object->vectorcall = &callLauncher;
  object->launcher = launcher.release();
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject *>(object));
}

std::string optionLines(const std::map<std::string, std::string> &options) {
  std::string lines;
  for (const auto &[key, value] : options)
    lines += key + "=" + value + "\n";
  return lines;
}

/// The code of a kernel for GPU, as `architecture` runs it.
Status assembleKernel(std::vector<uint8_t> &bytes, const std::string &architecture) {
  artifact::StandaloneKernel kernel;
  if (Status status = artifact::deserialize(bytes, kernel); !status.isOk() || !isPtx(kernel.kernel.code))
    return status;
  if (std::string error = assemble(kernel.kernel.code, architecture); !error.empty())
    return Status::internal("assemble", error);
  bytes = artifact::serialize(kernel);
  return Status::ok();
}

py::bytes compileKernel(const std::string &text, const std::map<std::string, std::string> &options,
                        const py::object &dump, const std::string &architecture) {
  CompilerLibrary::CompileRequest request;
  request.text = text;
  request.options = optionLines(options);
  if (!dump.is_none())
    request.dump = [&](const char *file, std::string_view data) {
      py::gil_scoped_acquire gil;
      dump(file, py::reinterpret_steal<py::object>(
                     PyUnicode_DecodeUTF8(data.data(), static_cast<Py_ssize_t>(data.size()), "replace")));
    };
  std::vector<uint8_t> bytes;
  Status status;
  {
    py::gil_scoped_release released;
    status = CompilerLibrary::get().compileKernel(request, bytes);
    if (status.isOk() && !architecture.empty())
      status = assembleKernel(bytes, architecture);
  }
  orThrow(status);
  return py::bytes(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

/// What a block of a kernel for GPU needs: on `device`, or where that is negative as far as its code says.
py::dict kernelResources(const py::handle &object, int device) {
  TORCH_CHECK_TYPE(Py_TYPE(object.ptr()) == launcherType, "kernel_resources expected a launcher of make_launcher");
  const Variant &variant = reinterpret_cast<LauncherObject *>(object.ptr())->launcher->distinct;
  const GpuKernel *kernel = variant.code->gpu.get();
  TORCH_CHECK_VALUE(kernel, "kernel ", variant.info.kernel.name, " is for the CPU");
  GpuResources resources = kernel->resources();
  std::optional<int> occupancy;
  if (device >= 0) {
    py::gil_scoped_release released;
    GpuScope scope(c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device)));
    GpuResources found = kernel->resourcesOn(device);
    resources.numRegisters = found.numRegisters;
    resources.localBytes = found.localBytes;
    occupancy = kernel->occupancyOn(device);
  }
  py::dict result;
  result["num_threads"] = kernel->numThreads();
  result["shared_bytes"] = resources.sharedBytes + kernel->sharedBytes();
  result["num_registers"] = resources.numRegisters;
  result["local_bytes"] = resources.localBytes;
  result["blocks_per_multiprocessor"] = occupancy;
  return result;
}

std::string importTriton(const std::string &text, bool isEmbeddable, bool pointersFirst) {
  std::string tile;
  Status status;
  {
    py::gil_scoped_release released;
    status = CompilerLibrary::get().importTriton(text, isEmbeddable, pointersFirst, tile);
  }
  orThrow(status);
  return tile;
}

py::dict assembledResources(const std::string &ptx, const std::string &architecture) {
  std::vector<uint8_t> code(ptx.begin(), ptx.end());
  std::string error = assemble(code, architecture);
  TORCH_CHECK_VALUE(error.empty(), error);
  GpuResources resources = readResources(code);
  py::dict result;
  result["num_registers"] = resources.numRegisters;
  result["local_bytes"] = resources.localBytes;
  return result;
}

} // namespace

void bindKernels(py::module_ &m) {
  makeLauncherType();
  m.def("compile_kernel", &compileKernel, py::arg("text"), py::arg("options"), py::arg("dump") = py::none(),
        py::arg("architecture") = "");
  m.def("import_triton", &importTriton, py::arg("text"), py::arg("embeddable") = false,
        py::arg("pointers_first") = false);
  m.def("make_launcher", &makeLauncher, py::arg("kernel"), py::arg("plan"), py::arg("num_ignored") = 0,
        py::arg("make_aliased") = py::none());
  m.def("assembled_resources", &assembledResources, py::arg("ptx"), py::arg("architecture"));
  m.def("kernel_resources", &kernelResources, py::arg("launcher"), py::arg("device") = -1);
}

} // namespace torch_tile::runtime
