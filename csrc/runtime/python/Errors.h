// The one place where outcomes of the compiler become Python exceptions.
#pragma once

#include "support/Status.h"

namespace torch_tile::runtime {

/// Throws the class of torch_tile.errors that fits `status`, with its stage, text and line. The caller holds the GIL.
void orThrow(const Status &status);

} // namespace torch_tile::runtime
