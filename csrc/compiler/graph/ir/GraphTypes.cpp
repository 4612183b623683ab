#include "compiler/graph/ir/GraphDialect.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::SizeExpr;

#define GET_TYPEDEF_CLASSES
#include "compiler/graph/ir/GraphTypes.cpp.inc"

void GraphDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/graph/ir/GraphTypes.cpp.inc"
      >();
}

Type mlir::graph::scalarType(Type elementType) {
  if (elementType.isUnsignedInteger())
    return IntegerType::get(elementType.getContext(), elementType.getIntOrFloatBitWidth());
  return elementType;
}

ParseResult mlir::graph::parseSizeExpr(AsmParser &parser, SizeExpr &expr) {
  torch_tile::SizeContext &sizes = GraphDialect::sizes(parser.getContext());
  int64_t value;
  OptionalParseResult integer = parser.parseOptionalInteger(value);
  if (integer.has_value()) {
    expr = sizes.constant(value);
    return *integer;
  }
  std::string text, error;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseString(&text))
    return failure();
  expr = sizes.parse(text, &error);
  if (!expr)
    return parser.emitError(location, "expected a size expression, got \"") << text << "\": " << error;
  return success();
}

void mlir::graph::printSizeExpr(AsmPrinter &printer, SizeExpr expr) {
  if (std::optional<int64_t> value = expr.constant())
    printer << *value;
  else
    printer << '"' << expr.str() << '"';
}

static ParseResult parseSizeList(AsmParser &parser, SmallVectorImpl<SizeExpr> &list) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&] { return parseSizeExpr(parser, list.emplace_back()); });
}

static void printSizeList(AsmPrinter &printer, ArrayRef<SizeExpr> list) {
  printer << '[';
  llvm::interleaveComma(list, printer, [&](SizeExpr e) { printSizeExpr(printer, e); });
  printer << ']';
}

SmallVector<SizeExpr> GraphTensorType::contiguousStrides(MLIRContext *context, ArrayRef<SizeExpr> sizes) {
  torch_tile::SizeContext &exprs = GraphDialect::sizes(context);
  SmallVector<SizeExpr> strides(sizes.size());
  SizeExpr stride = exprs.constant(1);
  for (size_t k = sizes.size(); k-- > 0;) {
    strides[k] = stride;
    // A dimension of size 0 or 1 leaves the stride as torch leaves it.
    if (!sizes[k].isConstant(0))
      stride = exprs.mul(stride, sizes[k]);
  }
  return strides;
}

GraphTensorType GraphTensorType::getContiguous(MLIRContext *context, ArrayRef<SizeExpr> sizes, Type elementType) {
  return get(context, sizes, elementType, contiguousStrides(context, sizes));
}

bool GraphTensorType::isContiguous() const {
  return ArrayRef(contiguousStrides(getContext(), getSizes())) == getStrides();
}

SizeExpr GraphTensorType::numElements() const {
  torch_tile::SizeContext &exprs = GraphDialect::sizes(getContext());
  SizeExpr product = exprs.constant(1);
  for (SizeExpr size : getSizes())
    product = exprs.mul(product, size);
  return product;
}

Type GraphTensorType::parse(AsmParser &parser) {
  SmallVector<SizeExpr> sizes, strides;
  Type elementType;
  if (parser.parseLess() || parseSizeList(parser, sizes) || parser.parseComma() || parser.parseType(elementType))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    SMLoc location = parser.getCurrentLocation();
    if (parseSizeList(parser, strides))
      return {};
    if (strides.size() != sizes.size()) {
      parser.emitError(location, "expected one stride per size, got ") << strides.size() << " for " << sizes.size();
      return {};
    }
  } else {
    strides = contiguousStrides(parser.getContext(), sizes);
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), sizes, elementType, strides);
}

void GraphTensorType::print(AsmPrinter &printer) const {
  printer << '<';
  printSizeList(printer, getSizes());
  printer << ", " << getElementType();
  if (!isContiguous()) {
    printer << ", ";
    printSizeList(printer, getStrides());
  }
  printer << '>';
}

Type SizeType::parse(AsmParser &parser) {
  SizeExpr expr;
  if (parser.parseLess() || parseSizeExpr(parser, expr) || parser.parseGreater())
    return {};
  return get(parser.getContext(), expr);
}

void SizeType::print(AsmPrinter &printer) const {
  printer << '<';
  printSizeExpr(printer, getExpr());
  printer << '>';
}
