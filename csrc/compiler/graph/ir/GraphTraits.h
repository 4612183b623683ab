// Families of named ops, as traits: what passes ask instead of listing ops.
#pragma once

#include "mlir/IR/OpDefinition.h"

namespace mlir::graph {

/// Entries of graph.extern's `aliases` that are no operand.
inline constexpr int64_t kNewMemory = -1, kAnyOperand = -2;

namespace detail {
LogicalResult verifyPointwise(Operation *op);
LogicalResult verifyReduction(Operation *op);
} // namespace detail

/// One result whose element depends on one element of every operand; operands broadcast as in numpy.
template <typename ConcreteType> class PointwiseTrait : public OpTrait::TraitBase<ConcreteType, PointwiseTrait> {
public:
  static LogicalResult verifyTrait(Operation *op) { return detail::verifyPointwise(op); }
};

/// The result lies over the storage of operand 0.
template <typename ConcreteType> class ViewTrait : public OpTrait::TraitBase<ConcreteType, ViewTrait> {};

/// Operand 0 is folded over `dims` (all dimensions if absent or empty).
template <typename ConcreteType> class ReductionTrait : public OpTrait::TraitBase<ConcreteType, ReductionTrait> {
public:
  static LogicalResult verifyTrait(Operation *op) { return detail::verifyReduction(op); }
};

/// Written with simpler named ops by graph-decompose-composites.
template <typename ConcreteType> class CompositeTrait : public OpTrait::TraitBase<ConcreteType, CompositeTrait> {};

} // namespace mlir::graph
