#include "runtime/python/ProgramObject.h"

#include "artifact/Serialize.h"
#include "runtime/executor/FrozenInputs.h"
#include "runtime/executor/SharedMemory.h"
#include "runtime/python/FailureNote.h"
#include "runtime/python/ProgramRows.h"
#include "runtime/python/PyCallArguments.h"

#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <optional>
#include <set>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace py = pybind11;

namespace torch_tile::runtime {

using namespace artifact;

namespace {

struct ProgramObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *attributes; // what callers set on it
  PyObject *weakReferences;
  PyObject *callables; // tuple
  PyObject *otherwise; // called where a frozen argument is another one; null if nothing was ever frozen
  std::shared_ptr<const FrozenInputs> frozen;
  CompiledGraph compiled;
};

/// Gives the GIL back when asked to, takes it again for callables and at the end.
class PythonHost final : public Host {
public:
  PythonHost(PyObject *callables, PyObject *attributes) : callables(callables), attributes(attributes) {}
  ~PythonHost() override { takeBack(); }

  void release() override { state = PyEval_SaveThread(); }

  void takeBack() {
    if (state)
      PyEval_RestoreThread(std::exchange(state, nullptr));
  }

  void raiseIfInterrupted() override {
    if (!isMainThread())
      return; // Python handles signals on the main thread alone
    bool wasReleased = state != nullptr;
    takeBack();
    if (PyErr_CheckSignals() != 0)
      throw python_error();
    if (wasReleased)
      release();
  }

  /// "argument `mask` (input 3 of graph_0)", where the front end has left the names on the program.
  std::string describeInput(uint32_t number) const override {
    std::string text = "input " + std::to_string(number);
    if (!attributes)
      return text;
    auto given = py::reinterpret_borrow<py::dict>(attributes);
    if (given.contains("__name__"))
      text += " of " + py::str(given["__name__"]).cast<std::string>();
    if (!given.contains("_input_names"))
      return text;
    py::list names(given["_input_names"]);
    if (number >= names.size() || names[number].is_none())
      return text;
    return "argument `" + py::str(names[number]).cast<std::string>() + "` (" + text + ")";
  }

  std::vector<c10::IValue> callPython(const PyCall &step, const Call &call) override {
    takeBack();
    py::tuple arguments(step.args.size());
    for (size_t i = 0; i < step.args.size(); ++i)
      arguments[i] = toPython(step.args[i], call);
    py::object result = py::reinterpret_steal<py::object>(
        PyObject_CallObject(PyTuple_GET_ITEM(callables, step.callable), arguments.ptr()));
    if (!result)
      throw py::error_already_set();
    std::vector<c10::IValue> flat;
    flattenResult(result, flat);
    return flat;
  }

private:
  static bool isMainThread() {
#if defined(__linux__)
    return syscall(SYS_gettid) == getpid();
#else
    return true;
#endif
  }

  PyObject *callables;
  PyObject *attributes; // of the program; may be null
  PyThreadState *state = nullptr;
};

void setInput(const Artifact &artifact, uint32_t number, PyObject *item, Call &call) {
  if (artifact.inputs[number].kind == Input::Kind::Tensor) {
    TORCH_CHECK(THPVariable_Check(item), "input ", number, " expected a tensor, got ", Py_TYPE(item)->tp_name);
    call.setTensor(number, THPVariable_Unpack(item));
    return;
  }
  TORCH_CHECK(PyIndex_Check(item), "input ", number, " expected an integer, got ", Py_TYPE(item)->tp_name);
  int64_t value = PyLong_AsLongLong(item);
  if (value == -1 && PyErr_Occurred())
    throw python_error();
  call.setInt(number, value);
}

/// False if a frozen argument is not what it was; nothing is set then that matters.
bool setInputs(const Artifact &artifact, const FrozenInputs *frozen, PyObject *const *items, size_t count, Call &call) {
  size_t numFrozen = frozen ? frozen->numArguments() : 0, numConstants = frozen ? frozen->constants().size() : 0;
  size_t expected = artifact.inputs.size() - numConstants + numFrozen;
  TORCH_CHECK(count == expected, "expected ", expected, " inputs, got ", count);
  uint32_t input = 0;
  size_t next = 0; // of the frozen ones
  for (size_t i = 0; i < count; ++i) {
    if (next < numFrozen && frozen->position(next) == i) {
      if (!THPVariable_Check(items[i]) || !frozen->isSame(next, THPVariable_Unpack(items[i])))
        return false;
      ++next;
    } else {
      setInput(artifact, input++, items[i], call);
    }
  }
  return true;
}

PyObject *takeOutputs(const Artifact &artifact, const Call &call) {
  auto outputs = py::reinterpret_steal<py::object>(PyList_New(static_cast<Py_ssize_t>(artifact.outputs.size())));
  if (!outputs)
    throw python_error();
  for (size_t i = 0; i < artifact.outputs.size(); ++i) {
    const Output &output = artifact.outputs[i];
    PyObject *item;
    if (output.kind == Output::Kind::Int)
      item = PyLong_FromLongLong(call.value(output.ref));
    else if (output.kind == Output::Kind::Tensor && call.tensor(output.ref).defined())
      item = THPVariable_Wrap(call.tensor(output.ref));
    else
      item = Py_NewRef(Py_None);
    if (!item)
      throw python_error();
    PyList_SET_ITEM(outputs.ptr(), static_cast<Py_ssize_t>(i), item);
  }
  return outputs.release().ptr();
}

const Artifact &artifactOf(PyObject *self) {
  return reinterpret_cast<ProgramObject *>(self)->compiled.program->artifact();
}

/// Lets the front end say what it knows of the step that has failed.
void noteStep(PyObject *self, const FailurePlace &place) {
  PyObject *attributes = reinterpret_cast<ProgramObject *>(self)->attributes;
  if (PyObject *describe = attributes ? PyDict_GetItemString(attributes, "_note_step") : nullptr)
    noteFailure(describe, artifactOf(self), place);
}

PyObject *runProgram(PyObject *self, PyObject *const *args, size_t flags, PyObject *keywords, FailurePlace &failure) {
  HANDLE_TH_ERRORS
  auto *object = reinterpret_cast<ProgramObject *>(self);
  TORCH_CHECK_TYPE(!keywords || PyTuple_GET_SIZE(keywords) == 0, "a program takes no keyword arguments");
  size_t count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  // A list is emptied, so that inputs can be freed before the end of the call.
  PyObject *list = count == 1 && PyList_CheckExact(args[0]) ? args[0] : nullptr;
  // Held here, for a callable may drop the last reference to the object.
  std::shared_ptr<const Program> program = object->compiled.program;
  std::shared_ptr<const FrozenInputs> frozen = object->frozen;
  auto callables = py::reinterpret_borrow<py::object>(object->callables);
  PythonHost host(callables.ptr(), object->attributes);
  Call call(*program, host, frozen.get());
  PyObject *const *items = list ? PySequence_Fast_ITEMS(list) : args;
  count = list ? static_cast<size_t>(PyList_GET_SIZE(list)) : count;
  bool isOther = !frozen && object->otherwise; // whose frozen arguments have been given up
  if (C10_UNLIKELY(isOther || !setInputs(program->artifact(), frozen.get(), items, count, call))) {
    auto otherwise = py::reinterpret_borrow<py::object>(object->otherwise);
    py::list arguments(count);
    for (size_t i = 0; i < count; ++i)
      arguments[i] = py::reinterpret_borrow<py::object>(items[i]);
    if (list && PyList_SetSlice(list, 0, PY_SSIZE_T_MAX, nullptr) != 0)
      throw python_error();
    PyObject *result = PyObject_CallOneArg(otherwise.ptr(), arguments.ptr());
    if (!result)
      throw python_error();
    return result;
  }
  if (list && PyList_SetSlice(list, 0, PY_SSIZE_T_MAX, nullptr) != 0)
    throw python_error();
  try {
    call.run();
  } catch (const OverlappingInputs &error) {
    py::object type = py::module_::import("torch_tile.errors").attr("OverlappingInputsError");
    PyErr_SetObject(type.ptr(), type("run", error.what()).ptr());
    throw python_error();
  } catch (const std::exception &error) {
    failure = failurePlace(call.failedSteps(), error);
    throw;
  }
  host.takeBack();
  return takeOutputs(program->artifact(), call);
  END_HANDLE_TH_ERRORS
}

PyObject *callProgram(PyObject *self, PyObject *const *args, size_t flags, PyObject *keywords) {
  FailurePlace failure;
  PyObject *result = runProgram(self, args, flags, keywords, failure);
  if (C10_UNLIKELY(!result && !failure.steps.empty()))
    noteStep(self, failure);
  return result;
}

//===-- attributes ----------------------------------------------------------------------------------------------===//

template <typename Action> size_t countSteps(const Artifact &artifact) {
  size_t count = 0;
  artifact.forEachBody([&](const Body &body) {
    for (const Step &step : body.steps)
      count += std::holds_alternative<Action>(step.action);
  });
  return count;
}

py::object toObject(py::object value) { return value; }
template <typename T> py::object toObject(T value) { return py::cast(value); }

template <auto function> PyObject *getter(PyObject *self, void *) {
  HANDLE_TH_ERRORS
  return toObject(function(self)).release().ptr();
  END_HANDLE_TH_ERRORS
}

std::string notes(PyObject *self) { return reinterpret_cast<ProgramObject *>(self)->compiled.notes; }
size_t numKernels(PyObject *self) { return artifactOf(self).kernels.size(); }
size_t numLaunches(PyObject *self) { return countSteps<Launch>(artifactOf(self)); }
size_t numExterns(PyObject *self) { return countSteps<Extern>(artifactOf(self)); }
py::object kernels(PyObject *self) { return kernelRows(artifactOf(self)); }
py::object externs(PyObject *self) { return externRows(artifactOf(self)); }
py::object linesOfSteps(PyObject *self) { return stepLines(artifactOf(self)); }
py::object launchGroups(PyObject *self) {
  py::list all;
  for (const std::vector<size_t> &levels : reinterpret_cast<ProgramObject *>(self)->compiled.program->launchGroups())
    all.append(py::cast(levels));
  return all;
}
bool writesInputs(PyObject *self) { return reinterpret_cast<ProgramObject *>(self)->compiled.program->writesInputs(); }
size_t numPyCalls(PyObject *self) { return countSteps<PyCall>(artifactOf(self)); }
std::string stepsText(PyObject *self) { return print(artifactOf(self)); }
const char *loadedFrom(PyObject *self) {
  return reinterpret_cast<ProgramObject *>(self)->compiled.isFromDisk ? "disk" : "compiled";
}
size_t numPacked(PyObject *self) {
  auto *object = reinterpret_cast<ProgramObject *>(self);
  return object->frozen ? object->frozen->numPacked() : 0;
}
std::vector<std::string> cacheEntries(PyObject *self) {
  return reinterpret_cast<ProgramObject *>(self)->compiled.cacheEntries;
}
double compileMs(PyObject *self) { return reinterpret_cast<ProgramObject *>(self)->compiled.compileMs; }

PyGetSetDef getters[] = {
    {"num_kernels", getter<numKernels>, nullptr, "distinct kernels", nullptr},
    {"num_launches", getter<numLaunches>, nullptr, "kernel launches in one call", nullptr},
    {"launch_groups", getter<launchGroups>, nullptr, "for each group of launches, the sizes of its levels", nullptr},
    {"num_externs", getter<numExterns>, nullptr, "dispatcher calls in one call", nullptr},
    {"writes_inputs", getter<writesInputs>, nullptr, "whether it may change the memory of an argument", nullptr},
    {"num_pycalls", getter<numPyCalls>, nullptr, "Python callables run in one call", nullptr},
    {"num_packed", getter<numPacked>, nullptr, "calls whose constant weight has been packed", nullptr},
    {"kernels", getter<kernels>, nullptr, "one dict per distinct kernel", nullptr},
    {"externs", getter<externs>, nullptr, "one dict per dispatcher call", nullptr},
    {"steps", getter<stepsText>, nullptr, "listing of the step program", nullptr},
    {"notes", getter<notes>, nullptr, "what the compiler has to say: a line of the graph text, a message", nullptr},
    {"step_lines", getter<linesOfSteps>, nullptr, "lines of the graph text behind each step", nullptr},
    {"loaded_from", getter<loadedFrom>, nullptr, "'compiled' or 'disk'", nullptr},
    {"cache_entries", getter<cacheEntries>, nullptr, "'kind/name' of what the disk cache has of it", nullptr},
    {"compile_ms", getter<compileMs>, nullptr, "from text to loaded program", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {}};

//===-- the type ------------------------------------------------------------------------------------------------===//

int traverse(PyObject *self, visitproc visit, void *arg) {
  auto *object = reinterpret_cast<ProgramObject *>(self);
  Py_VISIT(object->attributes);
  Py_VISIT(object->callables);
  Py_VISIT(object->otherwise);
  Py_VISIT(Py_TYPE(self));
  return 0;
}

int clear(PyObject *self) {
  auto *object = reinterpret_cast<ProgramObject *>(self);
  Py_CLEAR(object->attributes);
  // The callables stay in place until deallocation: a running call may still need them.
  return 0;
}

void deallocate(PyObject *self) {
  auto *object = reinterpret_cast<ProgramObject *>(self);
  PyObject_GC_UnTrack(self);
  if (object->weakReferences)
    PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->attributes);
  Py_CLEAR(object->callables);
  Py_CLEAR(object->otherwise);
  std::destroy_at(&object->frozen);
  object->compiled.~CompiledGraph();
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(ProgramObject, vectorcall), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(ProgramObject, attributes), READONLY, nullptr},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(ProgramObject, weakReferences), READONLY, nullptr},
                         {}};

PyType_Slot slots[] = {
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void *>(deallocate)},
    {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(clear)},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char *>(
                    "A compiled graph. Call it with its inputs, or with one list of them, which comes back empty.")},
    {0, nullptr}};

PyType_Spec spec = {
    "torch_tile._C.Program", sizeof(ProgramObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyTypeObject *programType = nullptr;

} // namespace

void bindProgram(py::module_ &m) {
  auto type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
  if (!type)
    throw py::error_already_set();
  // What AOTAutograd asks before it hands inputs over in a list.
  type.attr("_boxed_call") = true;
  // A copy of what never changes is the same; torch's minifier copies what it compares.
  type.attr("__deepcopy__") =
      py::cpp_function([](py::object self, const py::object &) { return self; }, py::is_method(type));
  programType = reinterpret_cast<PyTypeObject *>(type.ptr());
  m.attr("Program") = type;
  type.release(); // lives as long as the process
}

namespace {

ProgramObject *newProgram(CompiledGraph compiled, py::object callables, py::object &object) {
  object = py::reinterpret_steal<py::object>(programType->tp_alloc(programType, 0));
  if (!object)
    throw py::error_already_set();
  auto *self = reinterpret_cast<ProgramObject *>(object.ptr());
  new (&self->compiled) CompiledGraph(std::move(compiled));
  new (&self->frozen) std::shared_ptr<const FrozenInputs>();
  self->vectorcall = callProgram;
  self->callables = callables.release().ptr();
  return self;
}

} // namespace

py::object makeProgram(CompiledGraph compiled, const py::list &callables) {
  compiled.program->artifact().forEachBody([&](const Body &body) {
    for (const Step &step : body.steps) {
      auto *call = std::get_if<PyCall>(&step.action);
      TORCH_CHECK_VALUE(!call || call->callable < callables.size(), "the program needs Python callable ",
                        call ? call->callable : 0, ", got ", callables.size(), " callables");
    }
  });
  py::object object;
  newProgram(std::move(compiled), py::tuple(callables), object);
  return object;
}

static ProgramObject *toProgram(const py::object &object) {
  TORCH_CHECK_TYPE(Py_TYPE(object.ptr()) == programType, "expected a program, got ", Py_TYPE(object.ptr())->tp_name);
  return reinterpret_cast<ProgramObject *>(object.ptr());
}

py::object freezeProgram(const py::object &program, const std::vector<std::pair<uint32_t, TensorState>> &arguments,
                         std::vector<at::Tensor> constants, const std::vector<uint32_t> &packable,
                         py::object otherwise) {
  ProgramObject *given = toProgram(program);
  std::vector<FrozenInputs::Argument> frozen;
  for (const auto &[position, state] : arguments)
    frozen.push_back({position, state});
  py::object object;
  ProgramObject *self = newProgram(given->compiled, py::reinterpret_borrow<py::object>(given->callables), object);
  self->otherwise = otherwise.release().ptr();
  self->frozen =
      std::make_shared<const FrozenInputs>(*given->compiled.program, std::move(frozen), std::move(constants), packable);
  return object;
}

py::list plannedSteps(const py::object &program, const std::map<std::string, int64_t> &symbols) {
  static constexpr const char *kinds[] = {"input",  "alloc",  "free",    "alias",  "launch", "body_launch",
                                          "extern", "pycall", "control", "result", "output"};
  const Program &planned = *toProgram(program)->compiled.program;
  std::vector<int64_t> values;
  for (const std::string &name : planned.artifact().symbols) {
    auto it = symbols.find(name);
    values.push_back(it == symbols.end() ? 64 : it->second);
  }
  py::list steps;
  for (const PlannedStep &step : planned.plannedSteps(values))
    steps.append(py::make_tuple(kinds[static_cast<size_t>(step.kind)], step.step, step.slot, step.other, step.amount,
                                step.position));
  return steps;
}

void rebindProgram(const py::object &program, const py::object &other) {
  ProgramObject *self = toProgram(program);
  TORCH_CHECK_VALUE(self->otherwise, "expected a program with frozen arguments");
  if (other.is_none()) {
    self->frozen.reset();
    return;
  }
  ProgramObject *source = toProgram(other);
  // A running call holds what it needs; the old callables go at last, for that may run anything.
  auto callables = py::reinterpret_steal<py::object>(std::exchange(self->callables, Py_NewRef(source->callables)));
  self->compiled = source->compiled;
  self->frozen = source->frozen;
}

} // namespace torch_tile::runtime
