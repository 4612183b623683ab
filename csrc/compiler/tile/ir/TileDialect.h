// The tile dialect: types and ops.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/tile/ir/TileDialect.h.inc"
#include "compiler/tile/ir/TileEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/tile/ir/TileAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/tile/ir/TileTypes.h.inc"

#define GET_OP_CLASSES
#include "compiler/tile/ir/TileOps.h.inc"
