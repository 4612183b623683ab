#include "compiler/graph/ir/LoopsSyntax.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::SizeExpr;

//===-- syntax --------------------------------------------------------------------------------------------------===//

ParseResult mlir::graph::parseAxisList(OpAsmParser &parser, ArrayAttr &axes) {
  SmallVector<Attribute> list;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    SizeExpr extent;
    bool reduced = succeeded(parser.parseOptionalKeyword("reduce"));
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() || parseSizeExpr(parser, extent))
      return failure();
    list.push_back(AxisAttr::get(parser.getContext(), StringAttr::get(parser.getContext(), name), extent, reduced));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis))
    return failure();
  axes = ArrayAttr::get(parser.getContext(), list);
  return success();
}

void mlir::graph::printAxisList(OpAsmPrinter &printer, Operation *, ArrayAttr axes) {
  printer << '[';
  llvm::interleaveComma(axes.getAsRange<AxisAttr>(), printer, [&](AxisAttr axis) {
    printer << (axis.getReduced() ? "reduce " : "") << axis.getName().getValue() << " = ";
    printSizeExpr(printer, axis.getExtent());
  });
  printer << ']';
}

ParseResult mlir::graph::parseExprList(OpAsmParser &parser, ArrayAttr &exprs) {
  SmallVector<SizeExpr> list;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&] { return parseSizeExpr(parser, list.emplace_back()); }))
    return failure();
  exprs = exprArray(parser.getContext(), list);
  return success();
}

void mlir::graph::printExprList(OpAsmPrinter &printer, Operation *, ArrayAttr exprs) {
  printer << '[';
  llvm::interleaveComma(exprsOf(exprs), printer, [&](SizeExpr e) { printSizeExpr(printer, e); });
  printer << ']';
}

ParseResult mlir::graph::parseQuotedExpr(OpAsmParser &parser, ExprAttr &expr) {
  SizeExpr value;
  if (parseSizeExpr(parser, value))
    return failure();
  expr = ExprAttr::get(parser.getContext(), value);
  return success();
}

void mlir::graph::printQuotedExpr(OpAsmPrinter &printer, Operation *, ExprAttr expr) {
  printSizeExpr(printer, expr.getValue());
}

//===-- graph.loops ---------------------------------------------------------------------------------------------===//

SmallVector<AxisAttr> LoopsOp::axisList() { return llvm::to_vector(getAxes().getAsRange<AxisAttr>()); }

SmallVector<AxisAttr> LoopsOp::parallelAxes() {
  return llvm::filter_to_vector(axisList(), [](AxisAttr axis) { return !axis.getReduced(); });
}

SmallVector<AxisAttr> LoopsOp::reducedAxes() {
  return llvm::filter_to_vector(axisList(), [](AxisAttr axis) { return axis.getReduced(); });
}

Value LoopsOp::destOf(unsigned result) {
  if (auto list = getDestResults())
    for (auto [dest, index] : llvm::zip(getDests(), *list))
      if (index == result)
        return dest;
  return {};
}

WriteAtOp LoopsOp::getWriteAt() {
  for (Operation &op : llvm::reverse(*bodyBlock()))
    if (auto write = dyn_cast<WriteAtOp>(op))
      return write;
  return {};
}

bool LoopsOp::isReduction() { return !getCombine().empty() && !getWriteAt(); }

bool LoopsOp::isScan() { return getInits() && !getInits()->empty() && getWriteAt(); }

bool LoopsOp::isFreeScatter() { return getWriteAt() && !isScan() && reducedAxes().empty(); }

/// Whether a scan may write values of one scalar type as elements of another.
static bool roundsTo(Type value, Type element) {
  return isa<FloatType>(value) && isa<FloatType>(element) &&
         value.getIntOrFloatBitWidth() > element.getIntOrFloatBitWidth();
}

LogicalResult LoopsOp::verify() {
  SmallVector<AxisAttr> parallel = parallelAxes();
  bool hasReducedAxis = parallel.size() != getAxes().size();
  WriteAtOp write = getWriteAt();
  if (hasReducedAxis && !isReduction() && !write)
    return emitOpError("expected a combiner for its reduced axes");
  auto yielded = cast<YieldOp>(bodyBlock()->getTerminator()).getValues();
  if (yielded.size() != getNumResults())
    return emitOpError("expected to yield one value per result, got ") << yielded.size() << " for " << getNumResults();
  for (auto [value, type] : llvm::zip(yielded, getResultTypes())) {
    auto tensor = cast<GraphTensorType>(type);
    if (scalarType(tensor.getElementType()) != value.getType() &&
        !(isScan() && roundsTo(value.getType(), tensor.getElementType())))
      return emitOpError("expected yielded type to match the result's element type, got ")
             << value.getType() << " and " << tensor.getElementType();
    if (write && tensor.getRank() != write.getIndices().size())
      return emitOpError("expected to write at one index per result dimension, got ")
             << write.getIndices().size() << " for " << type;
    if (!write && tensor.getRank() != parallel.size())
      return emitOpError("expected one parallel axis per result dimension, got ")
             << parallel.size() << " axes for " << type;
  }
  if (write && !isScan() && getDests().size() != getNumResults())
    return emitOpError("expected a scatter to write into one dest per result, got ")
           << getDests().size() << " for " << getNumResults();
  if (isScan() && !write.getScalars().empty())
    return emitOpError("expected a scan to write at indices over its axes");
  if (!getCombine().empty()) {
    Block &combine = getCombine().front();
    bool isScatter = write && !isScan();
    if (!getInits() || getInits()->size() != (isScatter ? 0 : getNumResults()) ||
        combine.getNumArguments() != 2 * getNumResults())
      return emitOpError("expected ") << getNumResults() << " inits and a combiner of " << 2 * getNumResults()
                                      << " arguments";
  }
  return success();
}

SmallVector<SizeExpr> WriteAtOp::indexExprs() { return exprsOf(getIndices()); }

//===-- graph.load ----------------------------------------------------------------------------------------------===//

SmallVector<SizeExpr> LoadOp::indexExprs() { return exprsOf(getIndices()); }

LogicalResult LoadOp::verify() {
  if (getIndices().size() != getSource().getType().getRank())
    return emitOpError("expected one index per dimension, got ")
           << getIndices().size() << " for " << getSource().getType();
  if (getResult().getType() != scalarType(getSource().getType().getElementType()))
    return emitOpError("expected result type to match the element type, got ")
           << getResult().getType() << " and " << getSource().getType().getElementType();
  if (!getMask() != !getOther())
    return emitOpError("expected mask and other together");
  return success();
}
