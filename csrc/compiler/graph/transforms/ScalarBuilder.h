// Scalar arithmetic of loop bodies, with ATen's semantics for every element type.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

namespace mlir::graph {

/// The type in which arithmetic on an element type happens: f32 for the floats below it.
Type computeType(Type elementType);

/// A scalar with the element type that says its signedness; `value` itself is signless.
struct Scalar {
  Value value;
  Type type;
  explicit operator bool() const { return bool(value); }
};

/// Builds scalar ops at one place with one location. Types passed in are element types of tensors.
class ScalarBuilder {
public:
  ScalarBuilder(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}

  template <typename OpT, typename... Args> Value make(Args &&...args) const {
    return OpT::create(builder, loc, std::forward<Args>(args)...).getResult();
  }

  Value floatConstant(Type type, double value) const;
  Value intConstant(Type type, int64_t value) const;
  /// `value` converted to any element type.
  Value constant(Type type, double value) const;
  /// An integer, float or bool attribute as a constant of `type`; null if it is none of them.
  Value constant(Type type, Attribute number) const;

  /// `saturates`: floats become integers as on a GPU, else as on x86; f8E4M3FN has its largest number for what is
  /// beyond, else NaN.
  Value cast(Value value, Type from, Type to, bool saturates = false) const;
  Value isNonZero(Value value, Type type) const;
  Value isNan(Value value) const;
  Value select(Value condition, Value a, Value b) const { return make<arith::SelectOp>(condition, a, b); }
  Value compareInts(arith::CmpIPredicate predicate, Value a, Value b) const {
    return make<arith::CmpIOp>(predicate, a, b);
  }
  Value compareFloats(arith::CmpFPredicate predicate, Value a, Value b) const {
    return make<arith::CmpFOp>(predicate, a, b);
  }
  Value logicalNot(Value condition) const;

  OpBuilder &builder;
  Location loc;

private:
  Value floatToInt(Value value, Type to) const;
  Value floatToIntSaturating(Value value, Type from, Type to) const;
};

/// The scalar form of a pointwise op: operands are elements of its tensor operands, the answer is an element of its
/// result. Null if the op has none for these element types.
Value buildPointwise(ScalarBuilder &scalars, Operation *op, ValueRange operands);

} // namespace mlir::graph
