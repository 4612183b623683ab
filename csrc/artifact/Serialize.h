// Artifact <-> bytes. Reading accepts any bytes whatever and answers with an error instead of reading or allocating
// past them.
#pragma once

#include "artifact/Artifact.h"
#include "support/Status.h"

#include <span>

namespace torch_tile::artifact {

/// The bytes begin with a magic word and a format version; integrity (checksum) is the cache's business.
std::vector<uint8_t> serialize(const Artifact &artifact);

/// Checks every index (slots, exprs, kernels, symbols), every enum and the stack discipline of every Expr, so the
/// executor need not.
Status deserialize(std::span<const uint8_t> bytes, Artifact &artifact);

/// Human-readable listing of the step program ("55-program.txt" in dumps).
std::string print(const Artifact &artifact);

} // namespace torch_tile::artifact
