// Reductions and scans.
#include "compiler/tile/transforms/StripMiner.h"

using namespace mlir;
using namespace mlir::tile;

bool StripMiner::isPointwise(Region &region) {
  for (Operation &inner : region.front().without_terminator())
    if (!OpTrait::hasElementwiseMappableTraits(&inner) && !isa<arith::ConstantOp>(inner))
      return false;
  return true;
}

/// The combiner on tiles of one axis: its scalar region, op by op. On scalars the region itself.
FailureOr<SmallVector<Value>> StripMiner::combine(Region &region, ValueRange lhs, ValueRange rhs) {
  Block &block = region.front();
  IRMapping mapping;
  for (auto [argument, value] : llvm::zip_equal(
           block.getArguments(), llvm::concat<const Value>(SmallVector<Value>(lhs), SmallVector<Value>(rhs))))
    mapping.map(argument, value);
  auto tile = dyn_cast<RankedTensorType>(lhs[0].getType());
  if (!tile) {
    for (Operation &inner : block.without_terminator())
      b.clone(inner, mapping);
    return llvm::map_to_vector(block.getTerminator()->getOperands(),
                               [&](Value value) { return mapping.lookupOrDefault(value); });
  }
  int64_t lanes = tile.getNumElements();
  auto widen = [&](Value value) {
    Value mapped = mapping.lookupOrDefault(value);
    return tileOf(mapped) ? mapped : splat(mapped, lanes);
  };
  for (Operation &inner : block.without_terminator()) {
    if (isa<arith::ConstantOp>(inner)) {
      b.clone(inner, mapping);
      continue;
    }
    SmallVector<Value> operands = llvm::map_to_vector(inner.getOperands(), widen);
    SmallVector<Type> types =
        llvm::map_to_vector(inner.getResultTypes(), [&](Type type) { return pieceType(type, lanes); });
    OperationState state(inner.getLoc(), inner.getName(), operands, types, inner.getAttrs());
    mapping.map(inner.getResults(), b.create(state)->getResults());
  }
  return llvm::map_to_vector(block.getTerminator()->getOperands(), widen);
}

namespace {
/// The axes of a reduction as outer x axis x inner.
struct Extents {
  int64_t outer = 1, size = 1, inner = 1;
  Extents(RankedTensorType type, int64_t axis) : size(type.getDimSize(axis)) {
    for (int64_t k = 0; k < type.getRank(); ++k)
      (k < axis ? outer : inner) *= k == axis ? 1 : type.getDimSize(k);
  }
};
} // namespace

LogicalResult StripMiner::lowerReduce(ReduceOp op) {
  RankedTensorType type = tileOf(op.getSources()[0]);
  Extents extents(type, op.getAxis());
  int64_t block = extents.size * extents.inner;
  bool isPowerOf2 = llvm::isPowerOf2_64(type.getNumElements());
  bool isScalarResult = !tileOf(op.getResult(0)), isVector = isPointwise(op.getCombine());
  SmallVector<Value> scratch;
  if (!isScalarResult)
    scratch = llvm::map_to_vector(op.getResults(), [&](Value result) { return scratchFor(result); });
  SmallVector<Value> scalars;
  auto finish = [&](ValueRange values, Value start) {
    if (isScalarResult)
      scalars.assign(values.begin(), values.end());
    else
      for (auto [value, target] : llvm::zip_equal(values, scratch))
        storePiece(value, target, start);
  };
  auto pieces = [&](Value start, int64_t lanes) -> FailureOr<SmallVector<Value>> {
    SmallVector<Value> list;
    for (Value source : op.getSources()) {
      auto part = piece(source, start, lanes);
      if (failed(part))
        return failure();
      list.push_back(*part);
    }
    b.setLoc(op.getLoc());
    return list;
  };
  /// Accumulates pieces from `start` on, `stride` apart.
  auto accumulate = [&](Value start, int64_t count, int64_t stride, int64_t lanes,
                        bool coversAll) -> FailureOr<SmallVector<Value>> {
    auto visit = [&](Value at) {
      Scope &scope = *scopes.back();
      if (coversAll) {
        scope.numElements = type.getNumElements();
        scope.lanes = lanes;
        scope.start = at;
      }
      return pieces(at, lanes);
    };
    if (count == 1)
      return visit(start);
    SmallVector<Value> inits;
    for (Value source : op.getSources())
      inits.push_back(arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(pieceType(source.getType(), lanes)))));
    Value zero = i64(0);
    auto loop = scf::ForOp::create(b, zero, i64(count * stride), i64(stride), inits);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    ScopeGuard scope(*this);
    auto parts = visit(add(start, loop.getInductionVar()));
    if (failed(parts))
      return failure();
    // The first piece starts the accumulators, since a combiner need not have an identity.
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, loop.getInductionVar(), zero);
    SmallVector<Value> next;
    if (isVector) {
      auto combined = combine(op.getCombine(), loop.getRegionIterArgs(), *parts);
      for (auto [part, value] : llvm::zip_equal(*parts, *combined))
        next.push_back(arith::SelectOp::create(b, isFirst, part, value));
    } else {
      auto branch = scf::IfOp::create(b, ValueRange(*parts).getTypes(), isFirst, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard branchGuard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      scf::YieldOp::create(b, *parts);
      b.setInsertionPointToStart(branch.elseBlock());
      auto combined = combine(op.getCombine(), loop.getRegionIterArgs(), *parts);
      scf::YieldOp::create(b, *combined);
      llvm::append_range(next, branch.getResults());
    }
    b.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(b, next);
    llvm::append_range(scopes[scopes.size() - 2]->kept, scope.scope.kept);
    return SmallVector<Value>(loop.getResults());
  };
  /// What is left of `count` groups of size x inner lanes: a reduction in registers.
  auto fold = [&](ValueRange values, int64_t count, int64_t size, int64_t inner) -> SmallVector<Value> {
    if (size == 1)
      return llvm::to_vector(values);
    SmallVector<int64_t> shape, rest;
    if (count > 1)
      shape.push_back(count), rest.push_back(count);
    int64_t axis = shape.size();
    shape.push_back(size);
    if (inner > 1)
      shape.push_back(inner), rest.push_back(inner);
    SmallVector<Value> sources;
    SmallVector<Type> types;
    for (Value value : values) {
      Type element = getElementTypeOrSelf(value.getType());
      sources.push_back(reshape(value, shape));
      types.push_back(rest.empty() ? element : Type(RankedTensorType::get(rest, element)));
    }
    auto last = ReduceOp::create(b, types, sources, axis);
    IRMapping mapping;
    op.getCombine().cloneInto(&last.getCombine(), mapping);
    SmallVector<Value> results(last.getResults());
    if (rest.size() > 1)
      for (Value &result : results)
        result = reshape(result, {count * inner});
    return results;
  };

  ScopeGuard guard(*this);
  Scope &outerScope = guard.scope;
  LogicalResult done = success();
  if (!isVector) {
    done = loop(extents.outer * extents.inner, 1, [&](Value index) -> LogicalResult {
      Value start = extents.inner == 1 ? mul(index, block)
                                       : add(mul(divide(index, extents.inner), block), modulo(index, extents.inner));
      auto result = accumulate(start, extents.size, extents.inner, 1, /*coversAll=*/false);
      if (failed(result))
        return failure();
      finish(*result, index);
      return success();
    });
  } else if (block <= maxPiece && isPowerOf2 && extents.outer > 1) {
    int64_t lanes = std::min(maxPiece, type.getNumElements());
    while (lanes % block != 0 || type.getNumElements() % lanes != 0)
      --lanes;
    done = loop(type.getNumElements(), lanes, [&](Value start) -> LogicalResult {
      auto parts = pieces(start, lanes);
      if (failed(parts))
        return failure();
      finish(fold(*parts, lanes / block, extents.size, extents.inner), divide(start, extents.size));
      return success();
    });
  } else if (extents.inner == 1 || (extents.inner < 16 && isPowerOf2)) {
    // Lanes run along the axis; what they hold is folded at the end.
    int64_t lanes = extents.inner == 1 ? pieceLanes(RankedTensorType::get({block}, type.getElementType()))
                                       : std::min(maxPiece, block);
    done = loop(type.getNumElements(), block, [&](Value start) -> LogicalResult {
      auto result = accumulate(start, block / lanes, lanes, lanes, /*coversAll=*/true);
      if (failed(result))
        return failure();
      finish(fold(*result, 1, lanes / extents.inner, extents.inner), divide(start, extents.size));
      if (scopes.back() != &outerScope) {
        llvm::append_range(outerScope.kept, scopes.back()->kept);
        scopes.back()->kept.clear();
      }
      return success();
    });
  } else {
    int64_t lanes = std::min(maxPiece, extents.inner);
    while (extents.inner % lanes != 0 || type.getShape().back() % lanes != 0)
      --lanes;
    done = loop(extents.outer, 1, [&](Value outer) {
      return loop(extents.inner, lanes, [&](Value inner) -> LogicalResult {
        auto result =
            accumulate(add(mul(outer, block), inner), extents.size, extents.inner, lanes, /*coversAll=*/false);
        if (failed(result))
          return failure();
        finish(*result, add(mul(outer, extents.inner), inner));
        return success();
      });
    });
  }
  if (failed(done))
    return failure();
  finishScope(outerScope);
  if (isScalarResult) {
    op->replaceAllUsesWith(scalars);
    return success();
  }
  return keepResults(op, scratch);
}

/// What registers scan at once, in as many steps as its logarithm.
static constexpr int64_t scanLanes = 32;

/// Along the last axis: pieces are scanned in registers, one after the other, and what came before is combined with all
/// of a piece.
LogicalResult StripMiner::lowerLongScan(ScanOp op, ValueRange sources, ValueRange scratch) {
  RankedTensorType type = tileOf(op.getSources()[0]);
  int64_t size = type.getShape().back(), outer = type.getNumElements() / size;
  bool isReverse = op.getReverse();
  Value last = arith::ConstantOp::create(b, b.getI64IntegerAttr(isReverse ? 0 : scanLanes - 1));
  /// The piece at `start`, scanned.
  auto scan = [&](Value start) {
    SmallVector<Value> parts;
    SmallVector<Type> types;
    for (auto [source, place] : llvm::zip_equal(op.getSources(), sources)) {
      parts.push_back(loadPiece(getElementTypeOrSelf(source.getType()), place, start, scanLanes));
      types.push_back(parts.back().getType());
    }
    auto made = ScanOp::create(b, types, parts, /*axis=*/0, isReverse);
    IRMapping mapping;
    op.getCombine().cloneInto(&made.getCombine(), mapping);
    return SmallVector<Value>(made.getResults());
  };
  /// Stores a piece and gives what the next one goes on with.
  auto store = [&](ValueRange values, Value start) {
    SmallVector<Value> carried;
    for (auto [value, target] : llvm::zip_equal(values, scratch)) {
      storePiece(value, target, start);
      carried.push_back(ExtractOp::create(b, getElementTypeOrSelf(value.getType()), value, last));
    }
    return carried;
  };
  LogicalResult done = loop(outer, 1, [&](Value row) -> LogicalResult {
    Value begin = mul(row, size);
    auto at = [&](Value step) {
      Value moved = isReverse ? arith::SubIOp::create(b, i64(size - scanLanes), step).getResult() : step;
      return add(begin, moved);
    };
    Value first = at(i64(0));
    SmallVector<Value> inits = store(scan(first), first);
    auto steps = scf::ForOp::create(b, i64(scanLanes), i64(size), i64(scanLanes), inits);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(steps.getBody());
    ScopeGuard scope(*this);
    Value place = at(steps.getInductionVar());
    SmallVector<Value> parts = scan(place), before;
    for (Value carried : steps.getRegionIterArgs())
      before.push_back(splat(carried, scanLanes));
    auto combined = combine(op.getCombine(), before, parts);
    if (failed(combined))
      return failure();
    SmallVector<Value> carried = store(*combined, place);
    scf::YieldOp::create(b, carried);
    return success();
  });
  if (failed(done))
    return failure();
  return keepResults(op, scratch);
}

LogicalResult StripMiner::lowerScan(ScanOp op) {
  RankedTensorType type = tileOf(op.getSources()[0]);
  Extents extents(type, op.getAxis());
  int64_t block = extents.size * extents.inner;
  SmallVector<Value> sources, scratch;
  for (Value source : op.getSources()) {
    auto place = inScratch(source);
    if (failed(place))
      return failure();
    sources.push_back(*place);
  }
  for (Value result : op.getResults())
    scratch.push_back(scratchFor(result));
  if (isPointwise(op.getCombine()) && extents.inner == 1 && extents.size >= 2 * scanLanes &&
      extents.size % scanLanes == 0)
    return lowerLongScan(op, sources, scratch);
  // Lanes side by side scan together; along the axis one follows the other.
  int64_t lanes = isPointwise(op.getCombine()) && extents.inner >= 4 ? std::min(maxPiece, extents.inner) : 1;
  while (extents.inner % lanes != 0)
    --lanes;
  auto load = [&](Value start) {
    SmallVector<Value> list;
    for (auto [source, place] : llvm::zip_equal(op.getSources(), sources))
      list.push_back(loadPiece(getElementTypeOrSelf(source.getType()), place, start, lanes));
    return list;
  };
  auto store = [&](ValueRange values, Value start) {
    for (auto [value, target] : llvm::zip_equal(values, scratch))
      storePiece(value, target, start);
  };
  auto at = [&](Value start, Value step) {
    Value moved = op.getReverse() ? arith::SubIOp::create(b, i64(block - extents.inner), step).getResult() : step;
    return add(start, moved);
  };
  LogicalResult done = loop(extents.outer, 1, [&](Value outer) {
    return loop(extents.inner, lanes, [&](Value inner) -> LogicalResult {
      Value start = add(mul(outer, block), inner);
      Value first = at(start, i64(0));
      SmallVector<Value> inits = load(first);
      store(inits, first);
      if (extents.size == 1)
        return success();
      auto steps = scf::ForOp::create(b, i64(extents.inner), i64(block), i64(extents.inner), inits);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(steps.getBody());
      ScopeGuard scope(*this);
      Value place = at(start, steps.getInductionVar());
      SmallVector<Value> parts = load(place);
      auto combined = combine(op.getCombine(), steps.getRegionIterArgs(), parts);
      if (failed(combined))
        return failure();
      store(*combined, place);
      scf::YieldOp::create(b, *combined);
      return success();
    });
  });
  if (failed(done))
    return failure();
  return keepResults(op, scratch);
}
