#include "compiler/fusion/Access.h"
#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/ReductionLayout.h"
#include "compiler/fusion/SplitAxis.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Elements whose bytes are a whole number of any access: 64 of 8 bits are a line of a processor's cache.
constexpr int64_t unitOfPieces = 64;

class Splitter {
public:
  Splitter(FuncOp func, const Machine &machine, std::vector<FusionDecision> &decisions)
      : func(func), machine(machine), sizes(GraphDialect::sizes(func.getContext())), facts(func.facts()),
        decisions(decisions) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(func.getBody().front()))
      if (auto loops = dyn_cast<LoopsOp>(op); loops && loops.isReduction() && loops.getDests().empty())
        consider(loops);
  }

private:
  /// Reduced axes in the order of memory, of what is largest: those of a transposed tensor follow one another, too.
  void orderReducedAxes(LoopsOp op) {
    ReductionLayout layout(op, machine, facts);
    LoadOp load = layout.largestLoad();
    SmallVector<std::pair<int64_t, AxisAttr>> reduced;
    for (AxisAttr axis : op.reducedAxes()) {
      std::optional<SizeExpr> stride =
          load ? strideAlong(sizes, layout.offsetOf(load), axis.getName().getValue()) : std::nullopt;
      if (!stride)
        return;
      reduced.push_back({std::abs(facts.estimate(*stride)), axis});
    }
    llvm::stable_sort(reduced, [](auto &left, auto &right) { return left.first > right.first; });
    SmallVector<Attribute> axes;
    llvm::append_range(axes, op.parallelAxes());
    for (auto &[stride, axis] : reduced)
      axes.push_back(axis);
    op.setAxesAttr(ArrayAttr::get(op.getContext(), axes));
  }

  /// Makes neighbouring reduced axes one where memory allows it: more lengths divide 16 * 197 than 197.
  void mergeReducedAxes(LoopsOp op) {
    for (bool isChanged = true; isChanged;) {
      isChanged = false;
      SmallVector<AxisAttr> reduced = op.reducedAxes();
      for (size_t k = 0; k + 1 < reduced.size() && !isChanged; ++k) {
        AxisAttr outer = reduced[k], inner = reduced[k + 1];
        if (!ReductionLayout(op, machine, facts).areOneAxis(outer, inner))
          continue;
        isChanged = true;
        SizeExpr whole = sizes.symbol(inner.getName().getValue());
        AxisSubstitution substitution;
        substitution.set(outer.getName().getValue(), sizes.floorDiv(whole, inner.getExtent()));
        substitution.set(inner.getName().getValue(), sizes.mod(whole, inner.getExtent()));
        for (LoadOp load : op.bodyBlock()->getOps<LoadOp>())
          load.setIndicesAttr(exprArray(op.getContext(), llvm::map_to_vector(load.indexExprs(), [&](SizeExpr e) {
                                          return substitution.apply(sizes, e);
                                        })));
        SmallVector<Attribute> axes;
        for (AxisAttr axis : op.axisList())
          if (axis == inner)
            axes.push_back(AxisAttr::get(op.getContext(), inner.getName(),
                                         sizes.mul(outer.getExtent(), inner.getExtent()), /*reduced=*/true));
          else if (axis != outer)
            axes.push_back(axis);
        op.setAxesAttr(ArrayAttr::get(op.getContext(), axes));
      }
    }
  }

  /// Reduced axes that loads divide become one for each digit: pieces of the whole would not begin where digits do.
  void takeReducedAxesApart(LoopsOp op) {
    SmallVector<SizeExpr> axisMap;
    unsigned next = 0;
    SmallVector<Axis> digits = splitAxesOf(op, "d", next, facts, axisMap);
    SizeFacts within = withAxes(facts, digits);
    SmallVector<Attribute> axes;
    for (auto [axis, whole] : llvm::zip_equal(op.axisList(), axisMap)) {
      size_t before = axes.size();
      for (const Axis &digit : digits)
        if (axis.getReduced() && whole.contains(digit.name))
          axes.push_back(AxisAttr::get(op.getContext(), StringAttr::get(op.getContext(), digit.name), digit.extent,
                                       /*reduced=*/true));
      if (axes.size() < before + 2) {
        axes.truncate(before);
        axes.push_back(axis);
        continue;
      }
      shiftAxis(op, axis, whole, /*isExact=*/true, sizes);
    }
    if (axes.size() == op.axisList().size())
      return;
    op.setAxesAttr(ArrayAttr::get(op.getContext(), axes));
    for (LoadOp load : op.bodyBlock()->getOps<LoadOp>())
      load.setIndicesAttr(exprArray(
          op.getContext(), llvm::map_to_vector(load.indexExprs(), [&](SizeExpr e) { return within.simplify(e); })));
  }

  void consider(LoopsOp op) {
    double points = estimatePoints(op, facts);
    if (points < (double)machine.smallReduction)
      return;
    takeReducedAxesApart(op);
    ReductionLayout layout(op, machine, facts);
    bool isColumn = layout.takesColumns();
    double programs = layout.numPrograms();
    auto record = [&](bool taken, std::string reason) {
      decisions.push_back({FusionDecision::Kind::Split, taken, 0, lineOf(op.getLoc()), std::move(reason)});
    };
    if (programs >= (double)machine.fewPrograms)
      return;
    orderReducedAxes(op);
    mergeReducedAxes(op);
    double wanted = std::min((double)machine.wantedPrograms / programs, points / (double)machine.minChunk);
    double fewest = isColumn ? (double)machine.fewestRows : 2;
    auto piecesOf = [&](AxisAttr axis) { return std::min(wanted, (double)facts.estimate(axis.getExtent()) / fewest); };
    // Reduced axes come outermost first. Pieces of an outer axis are long runs; but an inner one that gives many more
    // is better. A short run in memory stays whole where another axis can be cut.
    AxisAttr best;
    auto isBetter = [&](AxisAttr axis) {
      if (bool isRunAxis = layout.isRun(axis); isColumn && isRunAxis != layout.isRun(best))
        return isRunAxis ? piecesOf(best) < 2 : piecesOf(axis) >= 2;
      return piecesOf(axis) > 2 * std::max(piecesOf(best), 1.0);
    };
    for (AxisAttr axis : op.reducedAxes())
      if (!best || isBetter(axis))
        best = axis;
    if (piecesOf(best) < 2)
      return record(false, "its longest reduced axis is too short to split");
    double chunk = std::ceil((double)facts.estimate(best.getExtent()) / piecesOf(best));
    // Longer pieces that need no mask are better, as long as there are enough of them.
    double most = chunk * piecesOf(best) * programs / (double)machine.fewPrograms;
    int64_t rows = isColumn ? rowsSideBySide(op, best, (int64_t)chunk) : 1;
    record(true, "one program per result would leave threads idle");
    split(op, best, (int64_t)chunk, (int64_t)most, isColumn, rows); // erases it
  }

  /// Few columns fill no tile, but several rows of them do, one after the other in memory: rows that have partial
  /// results of their own; 1 where that is of no use. A piece has `chunk` rows in all.
  int64_t rowsSideBySide(LoopsOp op, AxisAttr axis, int64_t chunk) {
    ReductionLayout layout(op, machine, facts);
    LoadOp load = layout.largestLoad();
    std::optional<int64_t> length = axis.getExtent().constant();
    if (!load || !length || machine.elementsOfRows == 0 || op.reducedAxes().size() != 1)
      return 1;
    int64_t columns = 1;
    for (AxisAttr each : op.parallelAxes())
      columns *= each.getExtent().constant().value_or(machine.elementsOfRows);
    std::optional<SizeExpr> stride = strideAlong(sizes, layout.offsetOf(load), axis.getName().getValue());
    if (columns < 2 || !stride || !stride->isConstant(columns))
      return 1;
    int64_t rows = 1;
    while (2 * rows * columns <= machine.elementsOfRows && *length % (2 * rows) == 0 &&
           chunk >= 2 * rows * machine.fewestRows)
      rows *= 2;
    return rows >= 4 ? rows : 1;
  }

  /// Pieces of equal length that leave a few elements over.
  struct Pieces {
    int64_t count, chunk, rest;
  };

  /// Of a length that nothing divides. Pieces of a row begin at the same place of a word of memory.
  std::optional<Pieces> piecesWithRest(int64_t length, int64_t chunk, bool isColumn) {
    int64_t unit = isColumn ? 1 : unitOfPieces, least = length / chunk;
    std::optional<Pieces> best;
    for (int64_t count = std::max<int64_t>(least, 2); count <= least + least / 4; ++count) {
      int64_t whole = length / count / unit * unit, rest = length - count * whole;
      if (whole > 0 && rest <= whole / 4 && (!best || rest < best->rest))
        best = {count, whole, rest};
    }
    return best;
  }

  /// Whether what a reduction reads is in memory anyway: a second reader would have other operands written there.
  static bool readsMemory(LoopsOp op) {
    return llvm::all_of(op.bodyBlock()->getOps<LoadOp>(), [](LoadOp load) {
      Value source = load.getSource();
      return !source.getDefiningOp<LoopsOp>() || llvm::any_of(source.getUsers(), llvm::IsaPred<ReturnOp>);
    });
  }

  /// Whether combining two values divides, as the moments of two parts do by their count.
  static bool divides(LoopsOp op) { return llvm::any_of(op.getCombine().front(), llvm::IsaPred<arith::DivFOp>); }

  /// With `rows` above 1 each piece has so many partial results of each column.
  void split(LoopsOp op, AxisAttr axis, int64_t chunk, int64_t mostChunk, bool isColumn, int64_t rows) {
    SizeExpr length = axis.getExtent();
    int64_t rest = 0;
    if (std::optional<int64_t> extent = length.constant()) {
      std::optional<int64_t> exact;
      if (rows > 1)
        exact = exactChunkNear(*extent / rows, std::max<int64_t>(chunk / rows, 2), mostChunk / rows);
      if (exact)
        length = sizes.constant(*extent / rows);
      else
        rows = 1;
      if (!exact)
        exact = exactChunkNear(*extent, chunk, mostChunk);
      // Elements that are left over come with the partial results: those of a last, shorter piece would have masks.
      std::optional<Pieces> uneven = exact ? std::nullopt : piecesWithRest(*extent, chunk, isColumn);
      if (uneven && op.reducedAxes().size() == 1 && readsMemory(op) && !divides(op)) {
        rest = uneven->rest;
        exact = uneven->chunk;
        length = sizes.constant(*extent - rest);
      }
      chunk = exact.value_or(chunk);
    }
    SizeExpr chunkExpr = sizes.constant(chunk);
    SizeExpr pieces = facts.simplify(sizes.ceilDiv(length, chunkExpr));
    bool isExact = facts.equal(sizes.mul(pieces, chunkExpr), length) == Proof::Yes;
    MLIRContext *context = func.getContext();
    OpBuilder builder(op);
    Location loc = op.getLoc();

    // Partial results: the pieces are the outermost result axis of a column reduction, the innermost one of a row
    // reduction, so that the second reduction reads as the first one does.
    StringAttr pieceName = builder.getStringAttr("p");
    AxisAttr pieceAxis = AxisAttr::get(context, pieceName, pieces, false);
    SmallVector<Attribute> axes;
    SmallVector<SizeExpr> partialSizes;
    if (isColumn)
      axes.push_back(pieceAxis);
    if (rows > 1)
      axes.push_back(AxisAttr::get(context, builder.getStringAttr("q"), sizes.constant(rows), false));
    for (AxisAttr a : op.parallelAxes())
      axes.push_back(a);
    if (!isColumn)
      axes.push_back(pieceAxis);
    for (Attribute a : axes)
      partialSizes.push_back(cast<AxisAttr>(a).getExtent());
    for (AxisAttr a : op.reducedAxes())
      axes.push_back(a == axis ? AxisAttr::get(context, a.getName(), chunkExpr, true) : a);
    SmallVector<Type> partialTypes;
    for (Type type : op.getResultTypes())
      partialTypes.push_back(
          GraphTensorType::getContiguous(context, partialSizes, cast<GraphTensorType>(type).getElementType()));

    auto partial = LoopsOp::create(builder, loc, partialTypes, builder.getArrayAttr(axes), ValueRange(),
                                   DenseI64ArrayAttr(), op.getInitsAttr(), ArrayAttr());
    IRMapping mapping, restMapping;
    op.getBody().cloneInto(&partial.getBody(), mapping);
    IRMapping combineMapping;
    op.getCombine().cloneInto(&partial.getCombine(), combineMapping);
    SizeExpr position = sizes.add(sizes.mul(sizes.symbol("p"), chunkExpr), sizes.symbol(axis.getName().getValue()));
    if (rows > 1)
      position = sizes.add(sizes.mul(position, sizes.constant(rows)), sizes.symbol("q"));
    shiftAxis(partial, axis, position, isExact, sizes);

    // The second reduction reads the partial results where the first read its operands.
    SmallVector<Attribute> finalAxes;
    SmallVector<SizeExpr> indices;
    if (isColumn)
      indices.push_back(sizes.symbol("r0"));
    if (rows > 1)
      indices.push_back(sizes.symbol("r1"));
    for (AxisAttr a : op.parallelAxes()) {
      finalAxes.push_back(a);
      indices.push_back(sizes.symbol(a.getName().getValue()));
    }
    if (!isColumn)
      indices.push_back(sizes.symbol("r0"));
    AxisAttr finalAxis =
        AxisAttr::get(context, builder.getStringAttr("r0"), sizes.add(pieces, sizes.constant(rest)), true);
    finalAxes.push_back(finalAxis);
    if (rows > 1)
      finalAxes.push_back(AxisAttr::get(context, builder.getStringAttr("r1"), sizes.constant(rows), true));
    auto whole = LoopsOp::create(builder, loc, op.getResultTypes(), builder.getArrayAttr(finalAxes), ValueRange(),
                                 DenseI64ArrayAttr(), op.getInitsAttr(), ArrayAttr());
    if (rest > 0) {
      op.getBody().cloneInto(&whole.getBody(), restMapping);
      SizeExpr beyond = sizes.sub(sizes.symbol("r0"), pieces);
      shiftAxis(whole, axis, sizes.add(length, beyond), /*isExact=*/true, sizes);
      takePartial(whole, partial, indices, beyond);
    } else {
      builder.createBlock(&whole.getBody());
      YieldOp::create(builder, loc, loadsOf(builder, loc, partial, indices, Value()));
    }
    whole.getCombine().takeBody(op.getCombine());
    op.replaceAllUsesWith(whole.getResults());
    op.erase();
  }

  /// Of all partial results, at one point; under a mask those that there are.
  static SmallVector<Value> loadsOf(OpBuilder &builder, Location loc, LoopsOp partial, ArrayRef<SizeExpr> indices,
                                    Value mask) {
    ArrayAttr place = exprArray(builder.getContext(), indices);
    return llvm::map_to_vector(partial.getOutputs(), [&](Value result) -> Value {
      Type type = scalarType(cast<GraphTensorType>(result.getType()).getElementType());
      Value other = mask ? arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type)).getResult() : Value();
      return LoadOp::create(builder, loc, type, result, place, ValueRange(), mask, other);
    });
  }

  /// Partial results in place of elements, where `beyond` is negative.
  void takePartial(LoopsOp op, LoopsOp partial, ArrayRef<SizeExpr> indices, SizeExpr beyond) {
    auto yield = cast<YieldOp>(op.bodyBlock()->getTerminator());
    OpBuilder builder(yield);
    Location loc = op.getLoc();
    auto index = [&](SizeExpr e) {
      return IndexOp::create(builder, loc, builder.getI64Type(), ExprAttr::get(op.getContext(), e), ValueRange());
    };
    Value isPartial =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, index(beyond), index(sizes.constant(0)));
    for (auto [k, loaded] : llvm::enumerate(loadsOf(builder, loc, partial, indices, isPartial)))
      yield.setOperand(k, arith::SelectOp::create(builder, loc, isPartial, loaded, yield.getOperand(k)));
  }

  FuncOp func;
  const Machine &machine;
  SizeContext &sizes;
  SizeFacts facts;
  std::vector<FusionDecision> &decisions;
};

} // namespace

void splitReductions(FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions) {
  Splitter(func, options.machine, decisions).run();
}

} // namespace torch_tile::fusion
