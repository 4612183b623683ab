#include "compiler/fusion/Access.h"
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

/// Threads of a GPU below which a scan in pieces is faster, and those that it is cut for.
constexpr double fewThreads = 1 << 16, wantedThreads = 1 << 17;
/// Elements of a row that one of its threads takes, and the most threads of a row.
constexpr double elementsOfThread = 16, threadsOfRow = 1024;
/// Points of a piece, along the row and across the columns, which divide into words of memory.
constexpr int64_t leastRowPiece = 4096, leastColumnPiece = 64, pieceMultiple = 16;

class Splitter {
public:
  Splitter(FuncOp func, std::vector<FusionDecision> &decisions)
      : func(func), sizes(GraphDialect::sizes(func.getContext())), facts(func.facts()), decisions(decisions) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(func.getBody().front()))
      if (auto loops = dyn_cast<LoopsOp>(op); loops && loops.isScan() && loops.getDests().empty())
        consider(loops);
  }

private:
  double extentOf(AxisAttr axis) { return (double)std::max<int64_t>(1, facts.estimate(axis.getExtent())); }

  /// Whether what is written lies side by side along the axis of the scan.
  bool isAlongRows(LoopsOp op, AxisAttr axis) {
    auto type = cast<GraphTensorType>(op.getResultTypes()[0]);
    SizeExpr offset = linearOffset(sizes, op.getWriteAt().indexExprs(), type.getStrides());
    std::optional<SizeExpr> stride = strideAlong(sizes, offset, axis.getName().getValue());
    return stride && stride->isConstant(1);
  }

  void consider(LoopsOp op) {
    // Reductions combine in any order; of equal values, cummax and cummin want the last one's index.
    if (op.reducedAxes().size() != 1 || op.getWriteAt().getMask() || op.getNumResults() > 1)
      return;
    AxisAttr axis = op.reducedAxes()[0];
    double length = extentOf(axis), results = 1;
    for (AxisAttr other : op.parallelAxes())
      results *= extentOf(other);
    bool isRow = isAlongRows(op, axis);
    double threads = results * (isRow ? std::clamp(length / elementsOfThread, 1.0, threadsOfRow) : 1);
    int64_t least = isRow ? leastRowPiece : leastColumnPiece;
    double wanted = std::ceil(wantedThreads / (results * (isRow ? (double)least / elementsOfThread : 1)));
    double pieces = std::min(wanted, std::floor(length / (double)least));
    // Three kernels cost more than a few tiles of one.
    if (threads >= fewThreads || pieces < 8)
      return;
    int64_t chunk = (int64_t)llvm::alignTo((uint64_t)std::ceil(length / pieces), pieceMultiple);
    if (std::optional<int64_t> extent = axis.getExtent().constant()) {
      // What is computed of the results joins the scan where no piece is shorter than the others.
      std::optional<int64_t> exact;
      if (*extent % pieceMultiple == 0 && (exact = exactChunkNear(*extent / pieceMultiple, chunk / pieceMultiple)))
        chunk = *exact * pieceMultiple;
      else if (!isRow && (exact = exactChunkNear(*extent, chunk)))
        chunk = *exact;
    }
    decisions.push_back({FusionDecision::Kind::Split, true, 0, lineOf(op.getLoc()),
                         "one scan for each result would leave threads idle"});
    split(op, axis, chunk, isRow); // erases it
  }

  void split(LoopsOp op, AxisAttr axis, int64_t chunk, bool isRow) {
    MLIRContext *context = func.getContext();
    OpBuilder builder(op);
    SizeExpr chunkExpr = sizes.constant(chunk);
    Pieces pieces{axis, chunkExpr, facts.simplify(sizes.ceilDiv(axis.getExtent(), chunkExpr))};
    pieces.isExact = facts.equal(sizes.mul(pieces.count, chunkExpr), axis.getExtent()) == Proof::Yes;
    pieces.position = sizes.add(sizes.mul(sizes.symbol("p"), chunkExpr), sizes.symbol(axis.getName().getValue()));
    pieces.isRow = isRow;
    SmallVector<SizeExpr> extents;
    for (AxisAttr other : op.parallelAxes()) {
      extents.push_back(other.getExtent());
      pieces.results.push_back(sizes.symbol(other.getName().getValue()));
    }
    extents = pieces.with(ArrayRef(extents), pieces.count);
    SmallVector<Type> types;
    for (Value value : cast<YieldOp>(op.bodyBlock()->getTerminator()).getValues())
      types.push_back(value.getType());
    for (auto [type, result] : llvm::zip_equal(types, op.getResultTypes())) {
      Type element = cast<GraphTensorType>(result).getElementType();
      type = GraphTensorType::getContiguous(context, extents, scalarType(element) == type ? element : type);
    }
    LoopsOp sums = foldPieces(builder, op, pieces, types);
    LoopsOp before = scanSums(builder, op, pieces, sums);
    LoopsOp whole = scanPieces(builder, op, pieces, before);
    op.replaceAllUsesWith(whole.getResults());
    op.erase();
  }

  struct Pieces {
    AxisAttr axis;
    SizeExpr chunk, count;
    bool isExact = false, isRow = false;
    SizeExpr position;             // of a point, over p and the axis
    SmallVector<SizeExpr> results; // the parallel axes

    /// What pieces have one of lies in memory as the elements do: pieces of a row side by side, those of columns apart.
    template <typename T> SmallVector<T> with(ArrayRef<T> list, T piece) const {
      SmallVector<T> all(list);
      all.insert(isRow ? all.end() : all.begin(), piece);
      return all;
    }
  };

  AxisAttr axisOf(StringRef name, SizeExpr extent, bool isReduced) {
    return AxisAttr::get(func.getContext(), StringAttr::get(func.getContext(), name), extent, isReduced);
  }

  /// The axes of `op` in pieces.
  ArrayAttr axesInPieces(LoopsOp op, const Pieces &pieces) {
    SmallVector<AxisAttr> parallel = op.parallelAxes();
    auto axes = llvm::to_vector_of<Attribute>(pieces.with(ArrayRef(parallel), axisOf("p", pieces.count, false)));
    axes.push_back(axisOf(pieces.axis.getName().getValue(), pieces.chunk, true));
    return ArrayAttr::get(func.getContext(), axes);
  }

  LoopsOp create(OpBuilder &builder, LoopsOp op, TypeRange types, ArrayAttr axes) {
    return LoopsOp::create(builder, op.getLoc(), types, axes, ValueRange(), DenseI64ArrayAttr(), op.getInitsAttr(),
                           ArrayAttr());
  }

  static void cloneRegion(Region &from, Region &to) {
    IRMapping mapping;
    from.cloneInto(&to, mapping);
  }

  /// The fold of each piece.
  LoopsOp foldPieces(OpBuilder &builder, LoopsOp op, const Pieces &pieces, TypeRange types) {
    LoopsOp sums = create(builder, op, types, axesInPieces(op, pieces));
    cloneRegion(op.getBody(), sums.getBody());
    cloneRegion(op.getCombine(), sums.getCombine());
    sums.getWriteAt().erase();
    shiftAxis(sums, pieces.axis, pieces.position, pieces.isExact, sizes);
    return sums;
  }

  /// The fold of all pieces before each one.
  LoopsOp scanSums(OpBuilder &builder, LoopsOp op, const Pieces &pieces, LoopsOp sums) {
    MLIRContext *context = func.getContext();
    Location loc = op.getLoc();
    auto axes = llvm::to_vector_of<Attribute>(op.parallelAxes());
    axes.push_back(axisOf("r0", pieces.count, true));
    LoopsOp scan = create(builder, op, sums.getResultTypes(), ArrayAttr::get(context, axes));
    OpBuilder body(context);
    body.createBlock(&scan.getBody());
    SizeExpr place = sizes.symbol("r0");
    Value index = IndexOp::create(body, loc, body.getI64Type(), ExprAttr::get(context, place), ValueRange());
    Value one = arith::ConstantOp::create(body, loc, body.getI64IntegerAttr(1));
    Value follows = arith::CmpIOp::create(body, loc, arith::CmpIPredicate::sge, index, one);
    SmallVector<SizeExpr> at = pieces.with(ArrayRef(pieces.results), place);
    SmallVector<SizeExpr> from = pieces.with(ArrayRef(pieces.results), sizes.sub(place, sizes.constant(1)));
    SmallVector<Value> loaded;
    for (auto [sum, init] : llvm::zip_equal(sums.getOutputs(), op.getInitsAttr())) {
      Value identity = arith::ConstantOp::create(body, loc, cast<TypedAttr>(init));
      loaded.push_back(LoadOp::create(body, loc, identity.getType(), sum, exprArray(context, from), ValueRange(),
                                      follows, identity));
    }
    WriteAtOp::create(body, loc, exprArray(context, at), ValueRange(), Value());
    YieldOp::create(body, loc, loaded);
    cloneRegion(op.getCombine(), scan.getCombine());
    return scan;
  }

  /// Scans of the pieces, of which the first point takes in all before.
  LoopsOp scanPieces(OpBuilder &builder, LoopsOp op, const Pieces &pieces, LoopsOp before) {
    MLIRContext *context = func.getContext();
    Location loc = op.getLoc();
    LoopsOp scan = create(builder, op, op.getResultTypes(), axesInPieces(op, pieces));
    cloneRegion(op.getBody(), scan.getBody());
    cloneRegion(op.getCombine(), scan.getCombine());
    shiftAxis(scan, pieces.axis, pieces.position, pieces.isExact, sizes);
    Operation *yield = scan.bodyBlock()->getTerminator();
    OpBuilder body(yield);
    SmallVector<SizeExpr> at = pieces.with(ArrayRef(pieces.results), sizes.symbol("p"));
    IRMapping mapping;
    Block &combine = op.getCombine().front();
    unsigned count = op.getNumResults();
    for (auto [k, sum] : llvm::enumerate(before.getOutputs())) {
      Type element = yield->getOperand(k).getType();
      mapping.map(combine.getArgument(k),
                  LoadOp::create(body, loc, element, sum, exprArray(context, at), ValueRange(), Value(), Value()));
      mapping.map(combine.getArgument(k + count), yield->getOperand(k));
    }
    for (Operation &inner : combine.without_terminator())
      body.clone(inner, mapping);
    ExprAttr place = ExprAttr::get(context, sizes.symbol(pieces.axis.getName().getValue()));
    Value index = IndexOp::create(body, loc, body.getI64Type(), place, ValueRange());
    Value zero = arith::ConstantOp::create(body, loc, body.getI64IntegerAttr(0));
    Value isFirst = arith::CmpIOp::create(body, loc, arith::CmpIPredicate::eq, index, zero);
    for (auto [k, folded] : llvm::enumerate(combine.getTerminator()->getOperands()))
      yield->setOperand(
          k, arith::SelectOp::create(body, loc, isFirst, mapping.lookupOrDefault(folded), yield->getOperand(k)));
    return scan;
  }

  FuncOp func;
  SizeContext &sizes;
  SizeFacts facts;
  std::vector<FusionDecision> &decisions;
};

} // namespace

void splitScans(FuncOp func, std::vector<FusionDecision> &decisions) { Splitter(func, decisions).run(); }

} // namespace torch_tile::fusion
