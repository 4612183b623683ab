#include "compiler/graph/ir/GraphDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::graph;

#include "compiler/graph/ir/GraphDialect.cpp.inc"

void GraphDialect::initialize() {
  sizeContext = std::make_unique<torch_tile::SizeContext>();
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/ir/GraphOps.cpp.inc"
      >();
}

torch_tile::SizeContext &GraphDialect::sizes(MLIRContext *context) {
  return context->getOrLoadDialect<GraphDialect>()->sizes();
}
