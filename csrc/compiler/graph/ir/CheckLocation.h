// What the location of a check of an index says besides the op: the dimension that the index is for.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/Location.h"

#include "llvm/ADT/StringExtras.h"

namespace mlir::graph {

inline Location locationOfCheck(Location op, int64_t dim) {
  return NameLoc::get(StringAttr::get(op.getContext(), llvm::itostr(dim)), op);
}

/// That dimension, if the location tells.
inline std::optional<int64_t> dimensionOfCheck(Location check) {
  int64_t dim;
  auto named = dyn_cast<NameLoc>(check);
  if (!named || named.getName().getValue().getAsInteger(10, dim))
    return std::nullopt;
  return dim;
}

} // namespace mlir::graph
