// The walk over a function and the conversion of types. The Import*.cpp files hold one family of ops each.
#pragma once

#include "compiler/tile/ir/TileDialect.h"
#include "compiler/triton/ImportTriton.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/SymbolTable.h"

namespace torch_tile::triton {

class TritonImporter {
public:
  TritonImporter(mlir::ModuleOp source, mlir::ModuleOp target, bool pointersFirst);
  mlir::LogicalResult importFunction(mlir::Operation *function);

private:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Operation = mlir::Operation;

  //===-- structure (TritonImporter.cpp)
  //----------------------------------------------------------------------------===//

  mlir::InFlightDiagnostic error(Operation *op);
  mlir::LogicalResult unsupported(Operation *op);
  static mlir::Attribute attribute(Operation *op, llvm::StringRef name);
  static int64_t integer(Operation *op, llvm::StringRef name, int64_t otherwise = 0);
  /// Operand groups of an op with operandSegmentSizes.
  llvm::SmallVector<llvm::SmallVector<Value>> segments(Operation *op);
  Type convert(Type type);
  Value operand(Operation *op, unsigned index) { return mapping.lookup(op->getOperand(index)); }
  llvm::SmallVector<Value> operands(mlir::ValueRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return mapping.lookup(value); });
  }
  Type resultType(Operation *op, unsigned index = 0) { return convert(op->getResult(index).getType()); }
  void set(Operation *op, Value value) { mapping.map(op->getResult(0), value); }
  mlir::LogicalResult importBlock(mlir::Block &block);
  mlir::LogicalResult importOp(Operation *op);
  mlir::LogicalResult importStandard(Operation *op);
  mlir::LogicalResult importControlFlow(Operation *op);
  mlir::LogicalResult importCall(Operation *op);
  mlir::LogicalResult importCombine(Operation *op, mlir::Region &target);

  //===-- families ------------------------------------------------------------------------------------------------===//

  std::optional<mlir::LogicalResult> importShape(Operation *op, llvm::StringRef name);
  std::optional<mlir::LogicalResult> importMemory(Operation *op, llvm::StringRef name);
  std::optional<mlir::LogicalResult> importArithmetic(Operation *op, llvm::StringRef name);
  mlir::LogicalResult importLibraryCall(Operation *op);
  mlir::LogicalResult importDotScaled(Operation *op);
  mlir::LogicalResult importScan(Operation *op, mlir::TypeRange types);
  mlir::LogicalResult importAtomicPoll(Operation *op);
  Value convertFloat(Value value, Type type, bool towardsZero);
  Value bitcast(Value value, Type type);
  Value constant(Type type, double value);
  Value integerConstant(Type type, int64_t value);

  mlir::ModuleOp source, target;
  bool pointersFirst;
  mlir::SymbolTable functions;
  mlir::ImplicitLocOpBuilder b;
  mlir::IRMapping mapping;
  llvm::SmallVector<Operation *> callStack;
};

} // namespace torch_tile::triton
