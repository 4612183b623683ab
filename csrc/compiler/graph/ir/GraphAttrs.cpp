#include "compiler/graph/ir/GraphDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::SizeExpr;

#define GET_ATTRDEF_CLASSES
#include "compiler/graph/ir/GraphAttrs.cpp.inc"

void GraphDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/graph/ir/GraphAttrs.cpp.inc"
      >();
}

ArrayAttr mlir::graph::exprArray(MLIRContext *context, ArrayRef<SizeExpr> exprs) {
  SmallVector<Attribute> attributes;
  for (SizeExpr expr : exprs)
    attributes.push_back(ExprAttr::get(context, expr));
  return ArrayAttr::get(context, attributes);
}

SmallVector<SizeExpr> mlir::graph::exprsOf(ArrayAttr array) {
  return llvm::map_to_vector(array.getAsRange<ExprAttr>(), [](ExprAttr attr) { return attr.getValue(); });
}

SizeExpr mlir::graph::exprOf(Attribute attribute) {
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return GraphDialect::sizes(attribute.getContext()).constant(integer.getValue().getSExtValue());
  return cast<ExprAttr>(attribute).getValue();
}

SmallVector<SizeExpr> mlir::graph::exprsOfAny(Attribute attribute) {
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(attribute))
    return llvm::map_to_vector(integers.asArrayRef(), [&](int64_t value) {
      return GraphDialect::sizes(attribute.getContext()).constant(value);
    });
  return llvm::map_to_vector(cast<ArrayAttr>(attribute), [](Attribute each) { return exprOf(each); });
}

bool mlir::graph::isSet(Attribute flag) {
  if (auto value = dyn_cast_if_present<BoolAttr>(flag))
    return value.getValue();
  return flag != nullptr;
}

Attribute ExprAttr::parse(AsmParser &parser, Type) {
  SizeExpr expr;
  if (parser.parseLess() || parseSizeExpr(parser, expr) || parser.parseGreater())
    return {};
  return get(parser.getContext(), expr);
}

void ExprAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printSizeExpr(printer, getValue());
  printer << '>';
}

Attribute AxisAttr::parse(AsmParser &parser, Type) {
  std::string name;
  SizeExpr extent;
  if (parser.parseLess())
    return {};
  bool reduced = succeeded(parser.parseOptionalKeyword("reduce"));
  if (parser.parseKeywordOrString(&name) || parser.parseEqual() || parseSizeExpr(parser, extent) ||
      parser.parseGreater())
    return {};
  return get(parser.getContext(), StringAttr::get(parser.getContext(), name), extent, reduced);
}

void AxisAttr::print(AsmPrinter &printer) const {
  printer << '<' << (getReduced() ? "reduce " : "") << getName().getValue() << " = ";
  printSizeExpr(printer, getExtent());
  printer << '>';
}
