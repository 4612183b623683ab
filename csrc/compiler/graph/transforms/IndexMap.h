// Where the elements of a view lie in its operand.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

namespace mlir::graph {

/// Names of loop variables: i0, i1, ... parallel, r0, r1, ... reduced, x0, x1, ... operands of an index expression.
torch_tile::SizeExpr axisSymbol(torch_tile::SizeContext &sizes, char kind, unsigned number);

/// `e` with the parallel variables i<k> replaced by `values`.
torch_tile::SizeExpr substituteAxes(torch_tile::SizeContext &sizes, torch_tile::SizeExpr e,
                                    ArrayRef<torch_tile::SizeExpr> values);

/// Tells `facts` that variable k runs over [0, extents[k]).
void setAxisExtents(torch_tile::SizeFacts &facts, char kind, ArrayRef<torch_tile::SizeExpr> extents);

/// For a view op other than as_strided: the indices of its operand at which element (i0, i1, ...) of its result lies.
/// `facts` know the extents of the result's variables.
SmallVector<torch_tile::SizeExpr> viewIndices(Operation *view, const torch_tile::SizeFacts &facts);

/// Indices of a tensor of sizes `from` that broadcasts to a point `at` of a higher or equal rank. A size that is
/// another expression than that of `to` may be 1 all the same; where `to` is not given it is taken for equal.
SmallVector<torch_tile::SizeExpr> broadcastIndices(torch_tile::SizeContext &sizes, ArrayRef<torch_tile::SizeExpr> from,
                                                   ArrayRef<torch_tile::SizeExpr> at,
                                                   ArrayRef<torch_tile::SizeExpr> to = {});

/// Row-major position of a point.
torch_tile::SizeExpr linearIndex(torch_tile::SizeContext &sizes, ArrayRef<torch_tile::SizeExpr> extents,
                                 ArrayRef<torch_tile::SizeExpr> at);

/// A constant negative index counted from the end of a dimension.
torch_tile::SizeExpr wrapConstant(torch_tile::SizeContext &sizes, torch_tile::SizeExpr index,
                                  torch_tile::SizeExpr size);

} // namespace mlir::graph
