// Size and index expressions as SSA values.
#pragma once

#include "compiler/fusion/Axes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringMap.h"

namespace torch_tile::tile_build {

/// Emits i64 scalars and tiles. Parts free of loop variables become integer arguments of the kernel, computed by the
/// host at launch.
class ExprEmitter {
public:
  /// `argument` answers with the kernel argument that holds an expression over symbols alone.
  /// `isGpu`: tiles of indices are spread over threads; else over the lanes of vectors.
  /// `reuse` answers with the value of an equal op that was made before, or of the given one.
  ExprEmitter(mlir::ImplicitLocOpBuilder &builder, const SizeFacts &facts,
              std::function<mlir::Value(SizeExpr)> argument, std::function<mlir::Value(mlir::Operation *)> reuse,
              bool isGpu = false)
      : builder(builder), facts(facts), argument(std::move(argument)), reuse(std::move(reuse)), isGpu(isGpu) {}

  /// Values of axes and x<k>: scalars (i64) or tiles of i64.
  using Bindings = llvm::StringMap<mlir::Value>;

  /// The value of `expr`; a tile if any binding it uses is one.
  mlir::Value emit(SizeExpr expr, const Bindings &bindings);
  /// Likewise in 32 bits, as the bindings are; for what `fitsNarrow`.
  mlir::Value emitNarrow(SizeExpr expr, const Bindings &bindings);
  /// Whether 32 bits are enough for whatever inside of `expr` is no sum or product: those are right modulo 2^32, and so
  /// is `expr` if its own value has 32 bits.
  bool fitsNarrow(SizeExpr expr) const;
  mlir::Value constant(int64_t value);

private:
  mlir::Value asTile(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  bool usesBinding(SizeExpr expr, const Bindings &bindings) const;
  mlir::Value valueOf(SizeExpr expr, const Bindings &bindings);
  mlir::Value sumOf(SizeExpr expr, const Bindings &bindings);
  mlir::Value atom(SizeExpr expr, const Bindings &bindings);
  /// ExprDivision.cpp
  mlir::Value divide(SizeExpr a, SizeExpr b, const Bindings &bindings, bool wantRemainder);
  mlir::Value divideLanes(mlir::Value dividend, int64_t divisor, bool wantRemainder);
  mlir::Value wrapOnce(mlir::Value dividend, mlir::Value divisor, bool wantRemainder);
  template <typename Op> mlir::Value binary(mlir::Value a, mlir::Value b) {
    if (auto type = mlir::dyn_cast<mlir::RankedTensorType>(a.getType()))
      b = asTile(b, type.getShape());
    else if (auto type = mlir::dyn_cast<mlir::RankedTensorType>(b.getType()))
      a = asTile(a, type.getShape());
    return reuse(Op::create(builder, a, b));
  }

  mlir::ImplicitLocOpBuilder &builder;
  const SizeFacts &facts;
  std::function<mlir::Value(SizeExpr)> argument;
  std::function<mlir::Value(mlir::Operation *)> reuse;
  bool isGpu;
  bool isNarrow = false;
  /// Values of parts of the expression that is emitted, by the part's identity.
  llvm::DenseMap<const void *, mlir::Value> known;
};

/// A scalar, or what each lane has for all rows, as a tile of the given shape.
mlir::Value toTile(mlir::ImplicitLocOpBuilder &builder, mlir::Value value, llvm::ArrayRef<int64_t> shape);

} // namespace torch_tile::tile_build
