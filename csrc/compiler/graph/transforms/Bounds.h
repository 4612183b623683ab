// What can be shown about the values of a tensor from the ops that made it.
#pragma once

#include "mlir/IR/Value.h"

namespace mlir::graph {

/// Whether no element of x is above 0, as long as nobody writes in between: x is a tensor minus its own maximum along
/// some dimensions.
bool isAtMostZero(Value x);

} // namespace mlir::graph
