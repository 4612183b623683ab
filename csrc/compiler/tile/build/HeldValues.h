// What a thread holds of a nest: of a row from one stage to the next, and of a point between its loads and its stores.
#pragma once

#include "compiler/tile/build/FusedLoops.h"

#include "llvm/ADT/SetVector.h"

namespace torch_tile::tile_build {

/// The last stage that goes over the reduced axes: rows are read again if it is not the first.
int lastFullStage(const FusedLoops &loops);

/// What is read of a row before the last stage.
llvm::SmallSetVector<mlir::Value, 4> heldBuffers(const FusedLoops &loops);

/// Values along rows that exist before a reduction is complete, and are used together with what is made of it.
int64_t numHandedOn(const FusedLoops &loops);

/// Words of 4 bytes that a point holds at most between its loads, which are under way together, and its stores.
int64_t liveWords(const FusedLoops &loops);

} // namespace torch_tile::tile_build
