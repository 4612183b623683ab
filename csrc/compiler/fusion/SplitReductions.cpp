#include "compiler/fusion/Access.h"
#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/SplitAxis.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

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
  /// Where `load` reads; axes that were taken apart and meet again in memory are whole.
  SizeExpr offsetWithin(LoopsOp op, LoadOp load) {
    SizeFacts within = facts;
    for (AxisAttr axis : op.axisList())
      within.setExtent(axis.getName().getValue(), axis.getExtent());
    return within.simplify(linearOffset(sizes, load.indexExprs(), load.getSource().getType().getStrides()));
  }

  /// Whether neighbouring results, rather than neighbouring reduced elements, lie side by side in what is read.
  bool isColumnReduction(LoopsOp op) {
    SmallVector<AxisAttr> parallel = op.parallelAxes();
    double rows = 0, columns = 0;
    for (Operation &inner : *op.bodyBlock()) {
      auto load = dyn_cast<LoadOp>(inner);
      if (!load)
        continue;
      SizeExpr offset = offsetWithin(op, load);
      // By what each load moves: a bias along the results says nothing against a matrix along the rows.
      double elements = (double)facts.estimate(load.getSource().getType().numElements());
      for (AxisAttr axis : op.axisList())
        if (auto stride = strideAlong(sizes, offset, axis.getName().getValue()); stride && stride->isConstant(1))
          (axis.getReduced() ? rows : columns) += elements;
    }
    return columns > rows;
  }

  /// Whether all that `op` reads lies along `outer` and `inner` as along one axis.
  bool areOneAxis(LoopsOp op, AxisAttr outer, AxisAttr inner) {
    for (Operation &each : *op.bodyBlock()) {
      if (isa<IndexOp, CheckIndexOp>(each))
        return false;
      auto load = dyn_cast<LoadOp>(each);
      if (!load)
        continue;
      SizeExpr offset = offsetWithin(op, load);
      std::optional<SizeExpr> far = strideAlong(sizes, offset, outer.getName().getValue());
      std::optional<SizeExpr> near = strideAlong(sizes, offset, inner.getName().getValue());
      if (!far || !near || facts.equal(*far, sizes.mul(*near, inner.getExtent())) != Proof::Yes)
        return false;
    }
    return true;
  }

  /// Makes neighbouring reduced axes one where memory allows it: more lengths divide 16 * 197 than 197.
  void mergeReducedAxes(LoopsOp op) {
    for (bool isChanged = true; isChanged;) {
      isChanged = false;
      SmallVector<AxisAttr> reduced = op.reducedAxes();
      for (size_t k = 0; k + 1 < reduced.size() && !isChanged; ++k) {
        AxisAttr outer = reduced[k], inner = reduced[k + 1];
        if (!areOneAxis(op, outer, inner))
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

  double extentOf(AxisAttr axis) { return (double)std::max<int64_t>(1, facts.estimate(axis.getExtent())); }

  /// The load that moves the most.
  LoadOp largestLoad(LoopsOp op) {
    LoadOp largest;
    int64_t most = -1;
    for (LoadOp load : op.bodyBlock()->getOps<LoadOp>())
      if (int64_t bytes = estimateBytes(load.getSource().getType(), facts); bytes > most) {
        largest = load;
        most = bytes;
      }
    return largest;
  }

  /// Where reduced neighbours are few, programs take the results that lie between them side by side: how many programs
  /// that leaves, or nothing where programs take one result each.
  std::optional<double> sharedPrograms(LoopsOp op) {
    LoadOp load = largestLoad(op);
    if (!load || machine.shortRunBytes == 0)
      return std::nullopt;
    SizeExpr offset = offsetWithin(op, load);
    auto strideOf = [&](AxisAttr axis) -> int64_t {
      std::optional<SizeExpr> stride = strideAlong(sizes, offset, axis.getName().getValue());
      return stride ? std::abs(facts.estimate(*stride)) : 0;
    };
    double run = 1, farthest = 0;
    SmallVector<AxisAttr> reduced = op.reducedAxes();
    llvm::stable_sort(reduced, [&](AxisAttr a, AxisAttr b) { return strideOf(a) < strideOf(b); });
    for (AxisAttr axis : reduced) {
      if ((double)strideOf(axis) == run)
        run *= extentOf(axis);
      farthest = std::max(farthest, (double)strideOf(axis));
    }
    if (run * (double)elementBytes(load.getType()) >= (double)machine.shortRunBytes)
      return std::nullopt;
    double inner = 1, outer = 1;
    for (AxisAttr axis : op.parallelAxes())
      (strideOf(axis) > 0 && (double)strideOf(axis) < farthest ? inner : outer) *= extentOf(axis);
    return outer * std::ceil(inner / (double)machine.columnsPerProgram);
  }

  /// Whether what `op` mostly reads lies side by side along `axis`.
  bool isRun(LoopsOp op, AxisAttr axis) {
    LoadOp load = largestLoad(op);
    std::optional<SizeExpr> stride;
    if (load)
      stride = strideAlong(sizes, offsetWithin(op, load), axis.getName().getValue());
    return stride && stride->isConstant(1);
  }

  void consider(LoopsOp op) {
    double results = 1, reduced = 1;
    for (AxisAttr axis : op.axisList())
      (axis.getReduced() ? reduced : results) *= extentOf(axis);
    if (results * reduced < (double)machine.smallReduction)
      return;
    takeReducedAxesApart(op);
    bool isColumn = isColumnReduction(op);
    double programs = isColumn ? std::ceil(results / (double)machine.columnsPerProgram) : results;
    if (std::optional<double> shared = sharedPrograms(op)) {
      programs = *shared;
      isColumn = true;
    }
    auto record = [&](bool taken, std::string reason) {
      decisions.push_back({FusionDecision::Kind::Split, taken, 0, lineOf(op.getLoc()), std::move(reason)});
    };
    if (programs >= (double)machine.fewPrograms)
      return;
    mergeReducedAxes(op);
    double wanted = std::min((double)machine.wantedPrograms / programs, results * reduced / (double)machine.minChunk);
    double fewest = isColumn ? (double)machine.fewestRows : 2;
    auto piecesOf = [&](AxisAttr axis) { return std::min(wanted, (double)facts.estimate(axis.getExtent()) / fewest); };
    // Reduced axes come outermost first. Pieces of an outer axis are long runs; but an inner one that gives many more
    // is better. A short run in memory stays whole where another axis can be cut.
    AxisAttr best;
    auto isBetter = [&](AxisAttr axis) {
      if (bool isRunAxis = isRun(op, axis); isColumn && isRunAxis != isRun(op, best))
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
    split(op, best, (int64_t)chunk, (int64_t)most, isColumn, rows);
    record(true, "one program per result would leave threads idle");
  }

  /// Few columns fill no tile, but several rows of them do, one after the other in memory: rows that have partial
  /// results of their own; 1 where that is of no use. A piece has `chunk` rows in all.
  int64_t rowsSideBySide(LoopsOp op, AxisAttr axis, int64_t chunk) {
    LoadOp load = largestLoad(op);
    std::optional<int64_t> length = axis.getExtent().constant();
    if (!load || !length || machine.elementsOfRows == 0 || op.reducedAxes().size() != 1)
      return 1;
    int64_t columns = 1;
    for (AxisAttr each : op.parallelAxes())
      columns *= each.getExtent().constant().value_or(machine.elementsOfRows);
    std::optional<SizeExpr> stride = strideAlong(sizes, offsetWithin(op, load), axis.getName().getValue());
    if (columns < 2 || !stride || !stride->isConstant(columns))
      return 1;
    int64_t rows = 1;
    while (2 * rows * columns <= machine.elementsOfRows && *length % (2 * rows) == 0 &&
           chunk >= 2 * rows * machine.fewestRows)
      rows *= 2;
    return rows >= 4 ? rows : 1;
  }

  /// With `rows` above 1 each piece has so many partial results of each column.
  void split(LoopsOp op, AxisAttr axis, int64_t chunk, int64_t mostChunk, bool isColumn, int64_t rows) {
    SizeExpr length = axis.getExtent();
    if (std::optional<int64_t> extent = length.constant()) {
      std::optional<int64_t> exact;
      if (rows > 1)
        exact = exactChunkNear(*extent / rows, std::max<int64_t>(chunk / rows, 2), mostChunk / rows);
      if (exact)
        length = sizes.constant(*extent / rows);
      else
        rows = 1;
      chunk = exact ? *exact : exactChunkNear(*extent, chunk, mostChunk).value_or(chunk);
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
    IRMapping mapping;
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
    finalAxes.push_back(AxisAttr::get(context, builder.getStringAttr("r0"), pieces, true));
    if (rows > 1)
      finalAxes.push_back(AxisAttr::get(context, builder.getStringAttr("r1"), sizes.constant(rows), true));
    auto whole = LoopsOp::create(builder, loc, op.getResultTypes(), builder.getArrayAttr(finalAxes), ValueRange(),
                                 DenseI64ArrayAttr(), op.getInitsAttr(), ArrayAttr());
    Block *body = builder.createBlock(&whole.getBody());
    SmallVector<Value> loaded;
    for (Value result : partial.getOutputs())
      loaded.push_back(LoadOp::create(builder, loc,
                                      scalarType(cast<GraphTensorType>(result.getType()).getElementType()), result,
                                      exprArray(context, indices), ValueRange(), Value(), Value()));
    builder.setInsertionPointToEnd(body);
    YieldOp::create(builder, loc, loaded);
    whole.getCombine().takeBody(op.getCombine());
    op.replaceAllUsesWith(whole.getResults());
    op.erase();
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
