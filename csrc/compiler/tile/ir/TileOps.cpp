#include "compiler/tile/ir/MatrixInstructions.h"
#include "compiler/tile/ir/TileDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace mlir::tile;

//===-- syntax --------------------------------------------------------------------------------------------------===//

/// Strides: constants or SSA values, `[%row, 1]`.
static ParseResult parseStrideList(OpAsmParser &parser, SmallVectorImpl<OpAsmParser::UnresolvedOperand> &strides,
                                   DenseI64ArrayAttr &staticStrides) {
  SmallVector<int64_t> values;
  auto parseOne = [&]() -> ParseResult {
    OpAsmParser::UnresolvedOperand operand;
    OptionalParseResult dynamic = parser.parseOptionalOperand(operand);
    if (dynamic.has_value()) {
      strides.push_back(operand);
      values.push_back(ShapedType::kDynamic);
      return *dynamic;
    }
    return parser.parseInteger(values.emplace_back());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  staticStrides = parser.getBuilder().getDenseI64ArrayAttr(values);
  return success();
}

static void printStrideList(OpAsmPrinter &printer, Operation *, OperandRange strides, DenseI64ArrayAttr staticStrides) {
  printer << '[';
  unsigned next = 0;
  llvm::interleaveComma(staticStrides.asArrayRef(), printer, [&](int64_t value) {
    if (ShapedType::isDynamic(value))
      printer << strides[next++];
    else
      printer << value;
  });
  printer << ']';
}

/// The offset of tile.ptr_add: i64 unless another type follows.
static ParseResult parseOffsetType(OpAsmParser &parser, Type &type) {
  if (succeeded(parser.parseOptionalComma()))
    return parser.parseType(type);
  type = parser.getBuilder().getI64Type();
  return success();
}

static void printOffsetType(OpAsmPrinter &printer, Operation *, Type type) {
  if (!type.isInteger(64))
    printer << ", " << type;
}

#define GET_OP_CLASSES
#include "compiler/tile/ir/TileOps.cpp.inc"

//===-- tile.kernel ---------------------------------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(arguments, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

//===-- memory --------------------------------------------------------------------------------------------------===//

static LogicalResult verifyAccess(Operation *op, Type value, PtrType base, ArrayRef<int64_t> strides, size_t numDynamic,
                                  size_t numValid) {
  auto tile = dyn_cast<RankedTensorType>(value);
  size_t rank = tile ? tile.getRank() : 0;
  if (strides.size() != rank)
    return op->emitOpError("expected one stride per axis, got ") << strides.size() << " for " << value;
  if (numValid != 0 && numValid != rank)
    return op->emitOpError("expected no valid counts or one per axis, got ") << numValid << " for " << value;
  if ((size_t)llvm::count_if(strides, ShapedType::isDynamic) != numDynamic)
    return op->emitOpError("expected one operand per dynamic stride, got ") << numDynamic;
  if (getElementTypeOrSelf(value) != base.getElementType())
    return op->emitOpError("expected element type to match the pointer's, got ")
           << getElementTypeOrSelf(value) << " and " << base.getElementType();
  return success();
}

/// The type with another element type: a tile of the same shape, or a scalar.
static Type cloneWithElement(Type type, Type element) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? Type(tile.clone(element)) : element;
}

LogicalResult LoadOp::verify() {
  if (getOther() && getOther().getType() != getBase().getType().getElementType())
    return emitOpError("expected other to match the pointer's element type, got ")
           << getOther().getType() << " and " << getBase().getType();
  if (getMask() && getMask().getType() != cloneWithElement(getResult().getType(), IntegerType::get(getContext(), 1)))
    return emitOpError("expected mask shape to match the result's, got ")
           << getMask().getType() << " and " << getResult().getType();
  return verifyAccess(*this, getResult().getType(), getBase().getType(), getStaticStrides(), getStrides().size(),
                      getValid().size());
}

LogicalResult StoreOp::verify() {
  if (getMask() && getMask().getType() != cloneWithElement(getValue().getType(), IntegerType::get(getContext(), 1)))
    return emitOpError("expected mask shape to match the value's, got ")
           << getMask().getType() << " and " << getValue().getType();
  return verifyAccess(*this, getValue().getType(), getBase().getType(), getStaticStrides(), getStrides().size(),
                      getValid().size());
}

/// Accesses with an address per element: what a tile of `value` may go with.
static LogicalResult verifyElements(Operation *op, Type value, Value base, Value offsets, Value mask) {
  Type pointers = base.getType(), element = cast<PtrType>(getElementTypeOrSelf(pointers)).getElementType();
  if (getElementTypeOrSelf(value) != element)
    return op->emitOpError("expected element type to match the pointer's, got ")
           << getElementTypeOrSelf(value) << " and " << element;
  auto hasShapeOfValue = [&](Type type) {
    return cloneWithElement(value, getElementTypeOrSelf(type)) == type ||
           (isa<RankedTensorType>(type) && isa<RankedTensorType>(value) &&
            cast<RankedTensorType>(type).getShape() == cast<RankedTensorType>(value).getShape());
  };
  if (!isa<PtrType>(pointers) && !hasShapeOfValue(pointers))
    return op->emitOpError("expected pointers to have the shape of the value, got ") << pointers << " and " << value;
  if (isa<PtrType>(pointers) && isa<RankedTensorType>(value) && !offsets)
    return op->emitOpError("expected offsets or a tile of pointers for ") << value;
  if (offsets && !hasShapeOfValue(offsets.getType()))
    return op->emitOpError("expected offsets to have the shape of the value, got ")
           << offsets.getType() << " and " << value;
  if (mask && !hasShapeOfValue(mask.getType()))
    return op->emitOpError("expected mask shape to match the value's, got ") << mask.getType() << " and " << value;
  return success();
}

LogicalResult GatherOp::verify() {
  return verifyElements(*this, getResult().getType(), getBase(), getOffsets(), getMask());
}

LogicalResult ScatterOp::verify() {
  Type element = getElementTypeOrSelf(getValue().getType());
  if (!getCombine().empty() && !llvm::equal(getCombine().front().getArgumentTypes(), ArrayRef<Type>{element, element}))
    return emitOpError("expected a combiner of two values of ") << element;
  return verifyElements(*this, getValue().getType(), getBase(), getOffsets(), getMask());
}

LogicalResult AtomicRmwOp::verify() {
  Type element = getElementTypeOrSelf(getValue().getType());
  if ((getKind() == AtomicKind::Maximum || getKind() == AtomicKind::Minimum) && !element.isF32() && !element.isF64())
    return emitOpError("expected floats of 32 or 64 bits, got ") << element;
  return verifyElements(*this, getValue().getType(), getBase(), getOffsets(), getMask());
}

LogicalResult AtomicCasOp::verify() {
  return verifyElements(*this, getValue().getType(), getBase(), getOffsets(), getMask());
}

LogicalResult PtrAddOp::verify() {
  auto tile = dyn_cast<RankedTensorType>(getBase().getType());
  auto offset = dyn_cast<RankedTensorType>(getOffset().getType());
  if (bool(tile) != bool(offset) || (tile && tile.getShape() != offset.getShape()))
    return emitOpError("expected offsets to have the shape of the pointers, got ")
           << getOffset().getType() << " and " << getBase().getType();
  return success();
}

//===-- tile.interleave -----------------------------------------------------------------------------------------===//

LogicalResult InterleaveOp::verify() {
  if (getSources().empty() || getSources().getTypes() != getResultTypes())
    return emitOpError("expected one result of its type per source, got ")
           << getSources().getTypes() << " and " << getResultTypes();
  auto first = cast<RankedTensorType>(getSources()[0].getType());
  if (first.getRank() != 1 || !llvm::all_equal(getSources().getTypes()))
    return emitOpError("expected tiles of one axis and one type, got ") << getSources().getTypes();
  return success();
}

//===-- tile.convert_layout -------------------------------------------------------------------------------------===//

LogicalResult ConvertLayoutOp::verify() {
  auto from = cast<RankedTensorType>(getSource().getType()), to = cast<RankedTensorType>(getType());
  if (from.getShape() != to.getShape() || from.getElementType() != to.getElementType() || !from.getEncoding() ||
      !to.getEncoding())
    return emitOpError("expected two layouts of one type, got ") << from << " and " << to;
  return success();
}

//===-- tile.dot ------------------------------------------------------------------------------------------------===//

LogicalResult DotOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType()), rhs = cast<RankedTensorType>(getRhs().getType()),
       acc = cast<RankedTensorType>(getAcc().getType());
  int64_t rank = acc.getRank();
  if ((rank != 2 && rank != 3) || lhs.getRank() != rank || rhs.getRank() != rank ||
      lhs.getDimSize(rank - 1) != rhs.getDimSize(rank - 2) || lhs.getDimSize(rank - 2) != acc.getDimSize(rank - 2) ||
      rhs.getDimSize(rank - 1) != acc.getDimSize(rank - 1) ||
      (rank == 3 && (lhs.getDimSize(0) != acc.getDimSize(0) || rhs.getDimSize(0) != acc.getDimSize(0))))
    return emitOpError("expected M x K, K x N and M x N, got ") << lhs << ", " << rhs << " and " << acc;
  if (Attribute precision = (*this)->getAttr(inputPrecisionAttrName)) {
    auto name = dyn_cast<StringAttr>(precision);
    if (!name || !inputPrecisionNamed(name.getValue()))
      return emitOpError("expected ") << inputPrecisionAttrName
                                      << " to be one of ieee, tf32, tf32x3, bf16x3, bf16x6, got " << precision;
  }
  return success();
}

//===-- tile.reduce and tile.scan -------------------------------------------------------------------------------===//

/// N tiles of one shape with the axis, and a combiner for them.
template <typename OpT> static LogicalResult verifyFold(OpT op) {
  if (op.getSources().empty() || op.getSources().size() != op.getNumResults())
    return op.emitOpError("expected one result per source, got ")
           << op.getNumResults() << " for " << op.getSources().size();
  auto first = cast<RankedTensorType>(op.getSources()[0].getType());
  if (op.getAxis() >= (uint64_t)first.getRank())
    return op.emitOpError("expected axis below the rank ") << first.getRank() << ", got " << op.getAxis();
  for (Value source : op.getSources())
    if (cast<RankedTensorType>(source.getType()).getShape() != first.getShape())
      return op.emitOpError("expected sources of one shape, got ") << first << " and " << source.getType();
  if (op.getCombine().front().getNumArguments() != 2 * op.getSources().size())
    return op.emitOpError("expected a combiner of ")
           << 2 * op.getSources().size() << " arguments, got " << op.getCombine().front().getNumArguments();
  return success();
}

LogicalResult ReduceOp::verify() { return verifyFold(*this); }

LogicalResult ShuffleXorOp::verify() {
  int64_t count = cast<RankedTensorType>(getType()).getNumElements(), mask = getMask();
  if (mask < 1 || count % (2 * (int64_t)llvm::bit_floor((uint64_t)mask)) != 0)
    return emitOpError("expected a mask of at least 1, of whose highest bit twice divides ")
           << count << " elements, got " << mask;
  return success();
}

LogicalResult ScanOp::verify() {
  if (getSources().getTypes() != getResultTypes())
    return emitOpError("expected results of the sources' types, got ")
           << getSources().getTypes() << " and " << getResultTypes();
  return verifyFold(*this);
}
