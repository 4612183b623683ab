// How an access walks memory: the linear offset of a load or store, taken apart by axes.
#pragma once

#include "compiler/fusion/Axes.h"

namespace torch_tile::fusion {

/// Sum of index times stride, in elements.
SizeExpr linearOffset(SizeContext &sizes, llvm::ArrayRef<SizeExpr> indices, llvm::ArrayRef<SizeExpr> strides);

/// The factor of `axis` in `offset` if the offset is linear in it (other axes may occur anywhere). Nothing if the axis
/// occurs inside a function or to a power.
std::optional<SizeExpr> strideAlong(SizeContext &sizes, SizeExpr offset, llvm::StringRef axis);

/// `offset` without its terms in `axis`; only if strideAlong answered.
SizeExpr withoutAxis(SizeContext &sizes, SizeExpr offset, llvm::StringRef axis);

/// Whether a load reads the element of a tensor that has the indices of the point: index k is the k-th axis.
bool readsOwnPoint(mlir::graph::LoadOp load, SizeContext &sizes);

} // namespace torch_tile::fusion
