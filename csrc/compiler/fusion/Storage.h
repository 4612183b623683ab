// What ops do to memory: whose storage a value lies in, and what is written in place.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

namespace torch_tile::fusion {

struct Group;

/// The value whose storage `value` lies in, through aliases and results that are written in place.
mlir::Value storageOf(mlir::Value value);
/// Storages that a top-level op writes in place.
llvm::SmallVector<mlir::Value> writtenStorages(mlir::Operation *op);
/// Symbols of sizes that a top-level op uses, anywhere in its types, attributes and body.
void collectSymbols(mlir::Operation *op, llvm::function_ref<void(std::string_view)> fn);

/// Why the members of `group` may not share a kernel because of what they write in place; null if they may. In-place
/// writes share a kernel with earlier reads of the same elements only, and only where nothing of an earlier read is
/// repeated in a later stage.
const char *findStorageHazard(const Group &group, SizeContext &sizes, const SizeFacts &symbols);

} // namespace torch_tile::fusion
