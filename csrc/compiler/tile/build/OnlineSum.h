// A maximum and the sum of exponentials relative to it, in one pass.
#pragma once

#include "compiler/tile/build/FusedLoops.h"

namespace torch_tile::tile_build {

/// The sum of e^(x - maximum) over the same axes as a maximum of x, if the group has one; null otherwise.
const FusedMember *onlineSumOf(FusedLoops &loops, const FusedMember &maximum);

} // namespace torch_tile::tile_build
