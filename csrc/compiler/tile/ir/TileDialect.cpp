#include "compiler/tile/ir/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tile;

#include "compiler/tile/ir/TileDialect.cpp.inc"
#include "compiler/tile/ir/TileEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/tile/ir/TileAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/tile/ir/TileTypes.cpp.inc"

namespace {
/// Tiles of pointers need the pointer type to be allowed inside a builtin tensor.
struct PtrInTensor : VectorElementTypeInterface::ExternalModel<PtrInTensor, PtrType> {};
} // namespace

void TileDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/tile/ir/TileAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/tile/ir/TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/tile/ir/TileOps.cpp.inc"
      >();
  PtrType::attachInterface<PtrInTensor>(*getContext());
}
