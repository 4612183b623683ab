// Sizes that are not known, but short where a kernel's vectors lie: rows of 3 coordinates, images of 4 channels.
#pragma once

#include "compiler/tile/build/FusedLoops.h"

namespace torch_tile::tile_build {

/// The sizes that the fast axes of a nest are made of, with the lengths seen at compile time. A kernel made for just
/// these runs where they are the call's, another one for all others. Empty: not worth a kernel of its own.
FixedSizes shortSizes(const FusedLoops &loops, mlir::ArrayAttr symbols);

/// 0 where all sizes are those, 1 elsewhere.
SizeExpr differs(SizeContext &sizes, const FixedSizes &fixed);

} // namespace torch_tile::tile_build
