// What plans the steps of a body: the state of `planSteps`.
#pragma once

#include "compiler/driver/PlanExprs.h"
#include "compiler/graph/ir/GraphDialect.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace torch_tile::driver {

/// The artifact's name of an element type; fails for types that torch has not.
mlir::FailureOr<artifact::ElementType> elementTypeOf(mlir::Type type);

class Planner {
public:
  Planner(mlir::graph::FuncOp func, llvm::function_ref<uint32_t(llvm::StringRef)> kernelIndex,
          llvm::function_ref<std::optional<uint32_t>(llvm::StringRef)> bodyIndex, artifact::Body &artifact)
      : func(func), kernelIndex(kernelIndex), bodyIndex(bodyIndex), artifact(artifact), exprs(artifact) {}

  mlir::LogicalResult run();

private:
  artifact::SlotId slotOf(mlir::Value value) {
    auto [it, isNew] = slots.try_emplace(value, nextSlot);
    if (isNew)
      ++nextSlot;
    return it->second;
  }

  /// The name of a symbol that only what the graph calls can define.
  static std::optional<std::string_view> unbackedSymbol(SizeExpr e) {
    auto name = e.symbol();
    return name && name->starts_with('u') ? name : std::nullopt;
  }

  static bool definesSymbol(mlir::Value value) {
    auto type = mlir::dyn_cast<mlir::graph::GraphTensorType>(value.getType());
    return type && llvm::any_of(type.getSizes(), [](SizeExpr e) { return unbackedSymbol(e).has_value(); });
  }

  mlir::LogicalResult planInputs();

  /// Results that a launch writes in place are the buffer they are written into.
  void findLastUses();

  void freeAfter(mlir::Operation &op);

  /// Tells the runtime which slots may share memory.
  void planMemory();

  template <typename Action> void push(Action action, std::vector<uint32_t> lines) {
    artifact.steps.push_back({std::move(action), std::move(lines)});
  }

  std::vector<uint32_t> linesOf(mlir::Operation &op);

  mlir::LogicalResult planOp(mlir::Operation &op);

  /// A new buffer for a result of `op`, or its place in the tensor that it is a part of.
  mlir::LogicalResult planBuffer(mlir::Operation &op, mlir::Value result);

  /// A call of a kernel that came with the graph. It becomes a launch like any other.
  static bool isKernelCall(mlir::Operation *op) {
    auto call = mlir::dyn_cast<mlir::graph::ExternOp>(op);
    return call && call.getOp() == "torch_tile::kernel";
  }

  /// `overload` names the kernel. There is one argument for each of the kernel's, of which a string is the number of a
  /// result, and at the end the sizes of the grid.
  mlir::LogicalResult planKernelCall(mlir::graph::ExternOp call);

  /// `overload` says which control flow it is; `args` are the names of its bodies, how many values are carried and how
  /// many sliced, and the values.
  mlir::LogicalResult planControl(mlir::graph::ExternOp call);

  mlir::LogicalResult planLaunch(mlir::graph::LaunchOp launch);

  /// "1.5 -2": the real and the imaginary part.
  static mlir::LogicalResult planComplex(llvm::StringRef text, artifact::Value &value);

  mlir::LogicalResult planArguments(mlir::Operation *op, mlir::ValueRange inputs, mlir::ArrayAttr args,
                                    std::vector<artifact::Value> &list);

  mlir::LogicalResult planResults(mlir::Operation *, mlir::ValueRange outputs, std::vector<artifact::Result> &list);

  void planAlias(artifact::SlotId result, artifact::SlotId source, mlir::graph::GraphTensorType type, SizeExpr offset,
                 std::vector<uint32_t> lines);

  artifact::SlotId planTensorOver(mlir::Value value, std::vector<uint32_t> lines);

  mlir::LogicalResult planOutputs(mlir::graph::ReturnOp ret);

  mlir::LogicalResult bindSymbols();

  mlir::graph::FuncOp func;
  llvm::function_ref<uint32_t(llvm::StringRef)> kernelIndex;
  llvm::function_ref<std::optional<uint32_t>(llvm::StringRef)> bodyIndex;
  artifact::Body &artifact;
  ExprTable exprs;
  llvm::DenseMap<mlir::Value, artifact::SlotId> slots;
  /// Outputs that are tensors of their own over the memory of a value.
  llvm::SmallVector<std::pair<artifact::SlotId, mlir::Value>> ownOutputs;
  artifact::SlotId nextSlot = 0;
  llvm::DenseMap<artifact::SlotId, mlir::Operation *> lastUse;
  struct Part {
    mlir::graph::AssembleOp whole;
    unsigned number = 0;
  };
  llvm::DenseMap<mlir::Value, Part> parts;
  /// Tensors of parts whose memory has been made.
  llvm::DenseSet<mlir::Operation *> assembled;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<artifact::SlotId, 4>> dies;
  struct ExternSymbol {
    artifact::SlotId slot;
    uint32_t dim;
  };
  std::unordered_map<std::string, ExternSymbol> externSymbols;
};

} // namespace torch_tile::driver
