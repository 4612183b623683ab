// A loaded artifact: immutable, shared by any number of calls on any threads. What changes during a call lives in Call.
#pragma once

#include "artifact/Artifact.h"
#include "runtime/compiler/KernelTable.h"
#include "runtime/executor/ExternCall.h"
#include "runtime/launch/cpu/CpuLaunch.h"
#include "runtime/launch/gpu/GpuLaunch.h"
#include "runtime/sizes/SizeProgram.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

namespace torch_tile::runtime {

class Call;
class FrozenInputs;

/// What a program needs from the language it is embedded in.
class Host {
public:
  virtual ~Host() = default;
  /// The program is about to work for long, or about to wait: other threads of the host may run until the call ends or
  /// runs a PyCall.
  virtual void release() = 0;
  /// Between steps of a long call: throws if the user wants it to end (Ctrl-C).
  virtual void raiseIfInterrupted() = 0;
  /// How to call an input in a message.
  virtual std::string describeInput(uint32_t number) const { return "input " + std::to_string(number); }
  /// Runs a callable under the host's lock, taken back if released, and gives its results flattened.
  virtual std::vector<c10::IValue> callPython(const artifact::PyCall &step, const Call &call) = 0;
};

struct ProgramOptions {
  /// Fill buffers with bytes of ones (NaN) when they are freed, to expose reads after the last use.
  bool poison = false;
  /// Who multiplies float32 matrices on the CPU.
  MatmulLibrary matmul = MatmulLibrary::Auto;
  /// Where kernels run and what they read and write lies.
  c10::Device device{c10::DeviceType::CPU};
};

/// One thing that a call does, for reports.
struct PlannedStep {
  enum class Kind : uint8_t {
    Input,
    Alloc,
    Free,
    Alias,
    Launch,
    BodyLaunch, // in a body of the Control before it; each body once
    Extern,
    PyCall,
    Control,
    Result,
    Output
  } kind;
  /// Among the artifact's; the number of an input or output.
  uint32_t step = 0;
  artifact::SlotId slot = 0;
  /// Alias: the slot whose memory it is. Result: the slot whose memory it may be, or its own. Launches: the kernel.
  uint32_t other = 0;
  /// Of Input and Alloc: bytes of the storage. Of Result: elements of the storage. Of launches: bytes read and written.
  int64_t amount = 0;
  /// Of Result: which one of its call. Of BodyLaunch: 1 in a branch or loop, which may run it never or many times.
  uint32_t position = 0;
};

class Program {
public:
  /// `kernels[i]` is the loaded code of artifact.kernels[i]. Throws c10::Error where the artifact does not fit this
  /// process.
  Program(artifact::Artifact artifact, std::vector<std::shared_ptr<const LoadedKernel>> kernels, ProgramOptions options)
      : Program(std::move(artifact), std::move(kernels), options, {}) {}

  /// What was loaded, without the code of kernels.
  const artifact::Artifact &artifact() const { return source; }
  const SizeProgram &sizeProgram() const { return sizes; }
  /// For each group of launches, how many there are in each of its levels.
  std::vector<std::vector<size_t>> launchGroups() const;
  MatmulLibrary matmulLibrary() const { return options.matmul; }
  bool writesInputs() const { return !writtenInputs.empty(); }
  /// What a call does, in the order in which it does it, for given values of the symbols (PlannedSteps.cpp).
  std::vector<PlannedStep> plannedSteps(std::span<const int64_t> symbols) const;

private:
  friend class Call;
  friend class MemoryWalk;

  /// `bodies` are those before a body of the artifact; the artifact itself makes its own.
  Program(artifact::Artifact artifact, std::vector<std::shared_ptr<const LoadedKernel>> kernels, ProgramOptions options,
          std::vector<std::shared_ptr<const Program>> bodies);

  /// Sizes and strides, as arrays where they are known.
  struct Shape {
    std::vector<artifact::ExprId> sizeIds, strideIds;
    std::vector<int64_t> sizes, strides;
    bool isConstant = false;
  };
  struct InputCheck {
    uint32_t number, slot;
    at::ScalarType type;
    Shape shape;
    bool isWritten = false; // perhaps
    /// Nothing but kernels reads or writes it: a copy serves as well, if what is written to it is copied back.
    bool mayBeCopied = false;
  };
  struct AllocStep {
    uint32_t slot;
    at::ScalarType type;
    Shape shape;
  };
  struct AliasStep {
    uint32_t result, source;
    Shape shape;
    artifact::ExprId offset;
    bool mayLeaveStorage = true; // not known to lie within its source
  };
  struct LaunchStep {
    const LoadedKernel *kernel;
    const artifact::Launch *launch;
    const char *name;
    std::vector<int64_t> integers; // when all are constant
    bool hasConstantIntegers;
    uint32_t source;           // the artifact's step
    std::string continuedName; // of what other threads do of it, for profilers
  };
  /// Launches on CPU of which many need nothing of each other.
  struct GroupStep {
    struct Level {
      std::vector<uint32_t> launches;
      int64_t costNs;
    };
    std::vector<uint32_t> launches; // in their order
    std::vector<Level> levels;      // those of one may run side by side, after all of the levels before
    int64_t costNs = 0;
  };
  /// What follows a call: symbols that its results define, then the exprs that these complete.
  struct LateSymbols {
    struct Definition {
      uint32_t symbol, slot, dim;
    };
    std::vector<Definition> definitions;
    std::vector<artifact::ExprId> exprs;
  };
  struct ExternStep {
    ExternCall call;
    const std::vector<artifact::Result> *results;
    LateSymbols late;
  };
  struct PyCallStep {
    const artifact::PyCall *call;
    LateSymbols late;
  };
  struct ControlStep {
    const artifact::Control *control;
    LateSymbols late;
  };
  enum class StepKind : uint8_t { Alloc, Free, Alias, Launch, Group, Extern, PyCall, Check, Control };
  struct StepRef {
    StepKind kind;
    uint32_t index;      // into the vector of its kind; for Free the slot
    uint32_t source = 0; // the artifact's step that it is; of a Group the first launch's
  };

  /// Sizes of a tensor, or a number, that a body gets.
  struct PlannedArgument {
    std::vector<int64_t> sizes;
    int64_t number = 0;
  };
  using PlannedSizes = std::unordered_map<artifact::SlotId, std::vector<int64_t>>;
  /// Launches of the bodies of a step, for `values` of exprs and sizes of slots.
  void planBodies(const ControlStep &step, uint32_t planStep, std::span<const int64_t> values,
                  const PlannedSizes &known, bool isUncertain, std::vector<PlannedStep> &planned) const;
  /// Launches of this program as a body.
  void planBody(std::span<const PlannedArgument> arguments, uint32_t planStep, bool isUncertain,
                std::vector<PlannedStep> &planned) const;

  /// Which of `tensorInputs` kernels and operators write; Python callables of graphs are functional.
  std::vector<uint32_t> findWrittenInputs() const;
  /// Slots whose memory the bodies of a step write.
  std::vector<uint32_t> slotsWrittenBy(const artifact::Control &control) const;
  /// Marks inputs that are read by kernels alone.
  void findCopyableInputs();
  /// Marks views that lie within what they are views of, whatever the arguments of a call are.
  void findViewsWithinBounds();
  Shape shapeOf(const std::vector<artifact::ExprId> &sizeIds, const std::vector<artifact::ExprId> &strideIds) const;
  /// Puts launches that may run side by side together (GroupLaunches.cpp).
  void groupLaunches();
  LateSymbols lateSymbolsOf(const std::vector<artifact::Result> &results, std::vector<bool> &isKnown) const;

  artifact::Artifact source;
  std::vector<std::shared_ptr<const LoadedKernel>> kernels; // keep code mapped
  ProgramOptions options;
  SizeProgram sizes;
  std::vector<artifact::ExprId> earlyExprs; // need symbols of inputs only
  std::vector<InputCheck> tensorInputs;
  std::vector<uint32_t> writtenInputs; // positions in tensorInputs
  std::vector<StepRef> steps;
  std::vector<AllocStep> allocs;
  std::vector<AliasStep> aliases;
  std::vector<LaunchStep> launches;
  std::vector<GroupStep> groups;
  std::vector<ExternStep> externs;
  std::vector<PyCallStep> pyCalls;
  std::vector<const artifact::Check *> checks;
  std::vector<ControlStep> controls;
  std::vector<std::shared_ptr<const Program>> bodies; // what control steps run
  bool callsDispatcher = false;
  bool usesGpu = false; // by kernels of its own
};

/// One run of a program: set every input, run, take the outputs.
class Call {
public:
  /// Tensors, integers and None.
  using Values = std::vector<c10::IValue>;

  /// `frozen` may be null; its constants take the place of the program's last inputs.
  Call(const Program &program, Host &host, const FrozenInputs *frozen = nullptr);
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  void setTensor(uint32_t input, const at::Tensor &tensor) { slots[program.source.inputs[input].slot] = tensor; }
  void setInt(uint32_t input, int64_t value) { ints[input] = value; }
  void run();
  /// After `run` has thrown: the step that failed, and those that ran its body, innermost first. Empty if it was none.
  std::vector<const artifact::Step *> failedSteps() const;

  const at::Tensor &tensor(artifact::SlotId slot) const { return slots[slot]; }
  int64_t value(artifact::ExprId id) const { return values[id]; }
  /// After `run`: the program's outputs (Control.cpp).
  Values results() const;

private:
  using Dims = c10::SmallVector<int64_t, 6>;

  void bindSymbols();
  [[noreturn]] void failRange(const artifact::SymbolSource &origin, int64_t value) const;
  void checkInputs();
  /// Whether strides are all that differ.
  bool isRestrided(const Program::InputCheck &check) const;
  /// The elements with the strides that the graph was compiled for.
  at::Tensor restrided(const Program::InputCheck &check);
  /// Throws OverlappingInputs where a written input shares memory with another one.
  void checkOverlaps() const;
  /// What the caller has passed for an input, of which the slot may have a copy.
  const at::Tensor &given(const Program::InputCheck &check) const;
  bool isPlain(const at::Tensor &tensor) const;
  /// The numbers that a tensor which is the negative of its memory stands for, in memory of their own.
  static at::Tensor resolved(const at::Tensor &negative);
  /// Gives an input that is the negative of its memory, or zeros without memory, memory of its own; false if it is
  /// neither.
  bool resolve(const Program::InputCheck &check);
  static at::Tensor zerosLike(const at::Tensor &zeroTensor);
  /// Writes inputs back, and results of calls that the call of `step` has written.
  void writeStandIns();
  void writeStandIns(const Program::ExternStep &step);
  [[noreturn]] void failInput(const Program::InputCheck &check) const;
  bool matches(const at::Tensor &tensor, const Program::Shape &shape) const;
  void runSteps();
  void releaseHost();
  void checkInterrupts();
  void alloc(const Program::AllocStep &step);
  void free(uint32_t slot);
  /// Overwrites a buffer of ours that nobody else holds.
  void poison(const at::Tensor &tensor);
  void alias(const Program::AliasStep &step);
  void checkBounds(const Program::AliasStep &step, const at::Tensor &source, int64_t offset) const;
  void launch(const Program::LaunchStep &step);
  /// Starts the profiler's event of a launch; `name` is the kernel's, or says that it goes on with one.
  void record(at::RecordFunction &event, const Program::LaunchStep &step, const char *name) const;
  void launchGroup(const Program::GroupStep &step);
  /// For arguments that are not where a kernel for GPU expects them (CopiedArguments.cpp).
  void launchOnCopies(const GpuKernel &kernel, const artifact::Launch &launch, std::span<void *> pointers,
                      std::span<const int64_t> integers, const GpuGrid &grid);
  at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);
  void callExtern(uint32_t number);
  void callPython(const Program::PyCallStep &step);

  // Control flow (Control.cpp).
  void runControl(const Program::ControlStep &step);
  c10::IValue argument(const artifact::Value &value) const;
  /// Empties `args`, so that what nobody else holds is freed as soon as the body has used it.
  Values runBody(uint32_t number, Values args);
  bool isTrue(const c10::IValue &condition);
  Values runWhile(const artifact::Control &control, Values args);
  Values runSliced(const artifact::Control &control, Values args);
  /// Tensors of other strides than the body was compiled for become copies.
  void fitInputs();
  void setResults(const std::vector<artifact::Result> &results, const Program::LateSymbols &late,
                  c10::ArrayRef<c10::IValue> flat, const char *callee);
  void defineSymbols(const std::vector<artifact::Result> &results, const Program::LateSymbols &late,
                     c10::ArrayRef<c10::IValue> flat);
  void checkResult(const artifact::Result &result, size_t number, const char *callee);

  const Program &program;
  Host &host;
  const FrozenInputs *frozen;
  bool isReleased = false;
  bool isNested = false; // runs a body
  std::optional<uint32_t> currentStep;
  std::vector<const artifact::Step *> failedStepsOfBody;
  uint32_t stepsSinceCheck = 0;
  std::chrono::steady_clock::time_point lastCheck; // of interrupts, while released
  std::optional<GpuScope> gpu;
  const int64_t *values;
  c10::SmallVector<at::Tensor, 24> slots;
  c10::SmallVector<int64_t, 8> ints; // by input number
  c10::SmallVector<int64_t, 8> symbols;
  c10::SmallVector<int64_t, 64> storage;             // values, when not all are constant
  std::vector<const c10::StorageImpl *> ownStorages; // of Alloc steps, kept when poisoning only
  /// A copy that the program uses in place of a tensor with the negative bit or with other strides.
  struct StandIn {
    at::Tensor original, resolved;
    bool isInput; // or a result of a call
    bool isWritten = true;
  };
  std::vector<StandIn> standIns;
};

} // namespace torch_tile::runtime
