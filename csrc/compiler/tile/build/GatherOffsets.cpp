// Where the elements of a tile lie whose indices follow no stride.
#include "compiler/tile/build/KernelEmitter.h"

#include "compiler/fusion/Access.h"
#include "compiler/tile/ir/Marks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

/// The part of an offset that differs between the elements of a tile, and what they have in common.
static std::pair<SizeExpr, SizeExpr> splitOffset(SizeContext &sizes, SizeExpr offset,
                                                 llvm::function_ref<bool(StringRef)> varies) {
  SizeExpr varying = sizes.constant(0), common = sizes.constant(0);
  for (const SizeTerm &term : SizeContext::terms(offset)) {
    SizeExpr product = sizes.constant(term.coefficient);
    for (const auto &[atom, power] : term.factors)
      for (int k = 0; k < power; ++k)
        product = sizes.mul(product, atom);
    SizeExpr &sum = llvm::any_of(product.symbols(), [&](std::string_view name) { return varies(StringRef(name)); })
                        ? varying
                        : common;
    sum = sizes.add(sum, product);
  }
  return {varying, common};
}

/// Elements from the first of a buffer to its last.
static SizeExpr spanOf(SizeContext &sizes, GraphTensorType type) {
  SizeExpr span = sizes.constant(1);
  for (auto [size, stride] : llvm::zip_equal(type.getSizes(), type.getStrides()))
    span = sizes.add(span, sizes.mul(sizes.sub(size, sizes.constant(1)), stride));
  return span;
}

/// Integers of 64 bits take a GPU two registers and several instructions each. What its threads compute is 32 bits wide
/// where that is proven to be enough; what they have in common moves the pointer.
KernelEmitter::Places KernelEmitter::placesOf(Value buffer, SizeExpr offset) {
  auto type = cast<GraphTensorType>(buffer.getType());
  SizeContext &sizes = loops.sizes();
  const SizeFacts &facts = loops.facts();
  auto varies = [&](StringRef name) {
    Value bound = bindings.lookup(name);
    return (schedule.vectorAxis >= 0 && name == vectorName()) || (hasRows() && name == rowName()) ||
           (bound && isa<RankedTensorType>(bound.getType()));
  };
  auto isKnown = [&](SizeExpr expr) {
    return llvm::all_of(expr.symbols(), [&](std::string_view name) {
      return !bindings.contains(StringRef(name)) || loops.axis(StringRef(name)) != nullptr;
    });
  };
  auto [varying, common] = splitOffset(sizes, offset, varies);
  // Of what indices choose is known that it lies inside of the buffer.
  SizeRange range;
  if (isKnown(varying)) {
    range = facts.range(varying);
  } else if (isKnown(common)) {
    SizeRange shared = facts.range(common), span = facts.range(spanOf(sizes, type));
    if (shared.min >= 0 && shared.max <= INT32_MAX && span.max <= INT32_MAX)
      range = {-shared.max, span.max};
  }
  if (!options.isGpu || range.min < INT32_MIN || range.max > INT32_MAX || !exprs.fitsNarrow(varying))
    return {pointerOf(buffer), toTile(builder, exprs.emit(offset, tileBindings()), tileShape())};
  Value pointer = pointerOf(buffer);
  if (!common.isConstant(0))
    pointer = reuse(tile::PtrAddOp::create(builder, pointer.getType(), pointer, exprs.emit(common, bindings)));
  return {pointer, toTile(builder, exprs.emitNarrow(varying, narrowBindings(varying)), tileShape())};
}

/// Of the axes and indices that an expression has, the values in 32 bits.
ExprEmitter::Bindings KernelEmitter::narrowBindings(SizeExpr expr) {
  Type i32 = builder.getI32Type();
  auto narrowed = [&](Value value) -> Value {
    auto tile = dyn_cast<RankedTensorType>(value.getType());
    if (auto widened = value.getDefiningOp<arith::ExtSIOp>(); widened && getElementTypeOrSelf(widened.getIn()) == i32)
      return widened.getIn();
    return reuse(arith::TruncIOp::create(builder, tile ? (Type)tile.clone(i32) : i32, value));
  };
  ExprEmitter::Bindings result;
  for (std::string_view symbol : expr.symbols()) {
    StringRef name(symbol);
    if (!bindings.contains(name))
      continue;
    Value value = narrowed(bindings.lookup(name));
    bool isRow = hasRows() && name == rowName();
    if (schedule.vectorAxis >= 0 && (isRow || name == vectorName())) {
      auto type = RankedTensorType::get(tileShape(), i32);
      Value position = hasRows() ? (isRow ? tilePositions().first : tilePositions().second)
                                 : reuse(tile::IotaOp::create(builder, type));
      value = reuse(arith::AddIOp::create(builder, reuse(tile::SplatOp::create(builder, type, value)), position));
    }
    result[name] = value;
  }
  return result;
}

/// Whether what is loaded under a mask is chosen from several such values, as elements of a concatenation are.
bool KernelEmitter::isOneOfSeveral(LoadOp load) {
  return load.getMask() && llvm::any_of(load->getUsers(), [&](Operation *user) {
           auto select = dyn_cast<arith::SelectOp>(user);
           return select && select.getCondition() != load.getResult();
         });
}

//===-- loads ---------------------------------------------------------------------------------------------------===//

KernelEmitter::TurnGuard::TurnGuard(KernelEmitter &emitter) : emitter(emitter) { turn(); }

KernelEmitter::TurnGuard::~TurnGuard() { turn(); }

void KernelEmitter::TurnGuard::turn() {
  std::swap(emitter.schedule.vectorAxis, emitter.schedule.rowAxis);
  std::swap(emitter.schedule.lanes, emitter.schedule.rows);
  std::swap(emitter.validLanes, emitter.validRows);
}

/// What lies side by side along the rows of a tile, and anywhere along its lanes: neighbouring threads read neighbours.
bool KernelEmitter::isAcross(SizeExpr offset) const {
  if (!options.isGpu || !hasRows() || isRowReduced() || isVectorReduced())
    return false;
  std::optional<SizeExpr> row = strideAlong(loops.sizes(), offset, rowName());
  return row && row->isConstant(1) && !strideAlong(loops.sizes(), offset, vectorName());
}

Value KernelEmitter::turned(Value value) {
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
  if (!type)
    return value;
  auto result = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
  return reuse(tile::TransOp::create(builder, result, value, builder.getDenseI64ArrayAttr({1, 0})));
}

/// Every lane has an address of its own.
Value KernelEmitter::gatherElements(LoadOp load, SizeExpr offset, bool scalarsVary, Value mask, Value other) {
  if (!scalarsVary && isAcross(offset)) {
    mask = turned(mask);
    other = turned(other);
    Value value;
    {
      TurnGuard guard(*this);
      value = gatherElements(load, offset, scalarsVary, mask, other);
    }
    return turned(value);
  }
  auto [place, offsets] = placesOf(load.getSource(), offset);
  if (isPartialTile() || (hasRows() && validRows)) {
    Value inside = gatherMask();
    mask = mask ? reuse(arith::AndIOp::create(builder, mask, inside)) : inside;
  }
  if (other)
    other = toTile(builder, other, tileShape());
  auto gather = tile::GatherOp::create(builder, tileOf(load.getType()), place, offsets, mask, other);
  if (isOneOfSeveral(load))
    gather->setAttr(tile::kOneOfSeveral, builder.getUnitAttr());
  return reuse(gather);
}

} // namespace torch_tile::tile_build
