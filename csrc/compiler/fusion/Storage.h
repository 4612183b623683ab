// What keeps loops that write in place out of a group, and what orders ops besides memory.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

namespace torch_tile::fusion {

struct Group;

/// Symbols of sizes that a top-level op uses, anywhere in its types, attributes and body.
void collectSymbols(mlir::Operation *op, llvm::function_ref<void(std::string_view)> fn);

/// Why the members of `group` may not share a kernel because of what they write in place; null if they may. In-place
/// writes share a kernel with earlier reads of the same elements only, and only where nothing of an earlier read is
/// repeated in a later stage.
const char *findStorageHazard(const Group &group, SizeContext &sizes, const SizeFacts &symbols);

} // namespace torch_tile::fusion
