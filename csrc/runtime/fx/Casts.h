#pragma once

#include "runtime/fx/Importer.h"

namespace torch_tile::runtime::fx {

/// x in another dtype and with the strides of `type`. Floats become integers as on the graph's device.
Value castTo(Importer &importer, const Value &x, TensorType type);

} // namespace torch_tile::runtime::fx
