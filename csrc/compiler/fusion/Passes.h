// Fusion as passes, for tile-opt.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

#include "mlir/Pass/Pass.h"

namespace torch_tile::fusion {

#define GEN_PASS_DECL
#include "compiler/fusion/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/fusion/Passes.h.inc"

} // namespace torch_tile::fusion
