// Tile building as a pass, for tile-opt.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace torch_tile::tile_build {

#define GEN_PASS_DECL
#include "compiler/tile/build/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/tile/build/Passes.h.inc"

} // namespace torch_tile::tile_build
