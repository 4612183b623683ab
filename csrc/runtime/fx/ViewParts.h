// Parts of tensors over the same storage.
#pragma once

#include "runtime/fx/OpCall.h"

namespace torch_tile::runtime::fx {

/// A position in [0, size], counted from the end where negative; unknown signs give Min and Max, never a guess: an
/// invalid expression where the sign decides.
SizeExpr clampPosition(Importer &importer, SizeExpr position, SizeExpr size);

/// `index`, which lies in [-size, size), counted from the front; invalid where its sign is not known. Of an index that
/// depends on data no guard of torch's says that it does: the call checks it.
SizeExpr checkedIndex(Call &call, SizeExpr index, SizeExpr size, int64_t dim);

/// Every `step`-th element of `dim` from `start` on; `type` is that of the result.
Value slice(Importer &importer, const Value &x, int64_t dim, SizeExpr start, SizeExpr step, TensorType type);

/// The range [start, start + length) of `dim`.
Value sliceRange(Importer &importer, const Value &x, int64_t dim, SizeExpr start, SizeExpr length);

/// With a dimension of size 1 more.
Value unsqueeze(Importer &importer, const Value &x, int64_t dim);

} // namespace torch_tile::runtime::fx
