#include "compiler/fusion/Access.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"

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
  /// Whether neighbouring results, rather than neighbouring reduced elements, lie side by side in what is read.
  bool isColumnReduction(LoopsOp op) {
    SmallVector<AxisAttr> parallel = op.parallelAxes();
    double rows = 0, columns = 0;
    for (Operation &inner : *op.bodyBlock()) {
      auto load = dyn_cast<LoadOp>(inner);
      if (!load)
        continue;
      SizeExpr offset = linearOffset(sizes, load.indexExprs(), load.getSource().getType().getStrides());
      // By what each load moves: a bias along the results says nothing against a matrix along the rows.
      double elements = (double)facts.estimate(load.getSource().getType().numElements());
      for (AxisAttr axis : op.axisList())
        if (auto stride = strideAlong(sizes, offset, axis.getName().getValue()); stride && stride->isConstant(1))
          (axis.getReduced() ? rows : columns) += elements;
    }
    return columns > rows;
  }

  void consider(LoopsOp op) {
    double results = 1, reduced = 1;
    AxisAttr longest;
    for (AxisAttr axis : op.axisList()) {
      double extent = (double)std::max<int64_t>(1, facts.estimate(axis.getExtent()));
      (axis.getReduced() ? reduced : results) *= extent;
      // Reduced axes come outermost first; the first of the longest ones splits into contiguous pieces.
      if (axis.getReduced() && (!longest || facts.estimate(axis.getExtent()) > facts.estimate(longest.getExtent())))
        longest = axis;
    }
    bool isColumn = isColumnReduction(op);
    double programs = isColumn ? std::ceil(results / (double)machine.columnsPerProgram) : results;
    auto record = [&](bool taken, std::string reason) {
      decisions.push_back({FusionDecision::Kind::Split, taken, 0, lineOf(op.getLoc()), std::move(reason)});
    };
    if (programs >= (double)machine.fewPrograms || results * reduced < (double)machine.smallReduction)
      return;
    double extent = (double)facts.estimate(longest.getExtent());
    double pieces =
        std::min({(double)machine.wantedPrograms / programs, results * reduced / (double)machine.minChunk, extent / 2});
    if (pieces < 2)
      return record(false, "its longest reduced axis is too short to split");
    split(op, longest, (int64_t)std::ceil(extent / pieces), isColumn);
    record(true, "one program per result would leave threads idle");
  }

  void split(LoopsOp op, AxisAttr axis, int64_t chunk, bool isColumn) {
    // A chunk that divides the extent needs no mask: look for one nearby.
    if (std::optional<int64_t> extent = axis.getExtent().constant())
      for (int64_t candidate = chunk; candidate <= 2 * chunk && candidate < *extent; ++candidate)
        if (*extent % candidate == 0) {
          chunk = candidate;
          break;
        }
    SizeExpr chunkExpr = sizes.constant(chunk);
    SizeExpr pieces = facts.simplify(sizes.ceilDiv(axis.getExtent(), chunkExpr));
    bool isExact = facts.equal(sizes.mul(pieces, chunkExpr), axis.getExtent()) == Proof::Yes;
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
    shiftAxis(partial, axis, position, isExact);

    // The second reduction reads the partial results where the first read its operands.
    SmallVector<Attribute> finalAxes;
    SmallVector<SizeExpr> indices;
    if (isColumn)
      indices.push_back(sizes.symbol("r0"));
    for (AxisAttr a : op.parallelAxes()) {
      finalAxes.push_back(a);
      indices.push_back(sizes.symbol(a.getName().getValue()));
    }
    if (!isColumn)
      indices.push_back(sizes.symbol("r0"));
    finalAxes.push_back(AxisAttr::get(context, builder.getStringAttr("r0"), pieces, true));
    auto whole = LoopsOp::create(builder, loc, op.getResultTypes(), builder.getArrayAttr(finalAxes), ValueRange(),
                                 DenseI64ArrayAttr(), op.getInitsAttr(), ArrayAttr());
    Block *body = builder.createBlock(&whole.getBody());
    SmallVector<Value> loaded;
    for (Value result : partial.getOutputs())
      loaded.push_back(LoadOp::create(builder, loc, cast<GraphTensorType>(result.getType()).getElementType(), result,
                                      exprArray(context, indices), ValueRange(), Value(), Value()));
    builder.setInsertionPointToEnd(body);
    YieldOp::create(builder, loc, loaded);
    whole.getCombine().takeBody(op.getCombine());
    op.replaceAllUsesWith(whole.getResults());
    op.erase();
  }

  /// Replaces `axis` by `position` in the body; points past the extent contribute the identity.
  void shiftAxis(LoopsOp op, AxisAttr axis, SizeExpr position, bool isExact) {
    AxisSubstitution substitution;
    substitution.set(axis.getName().getValue(), position);
    OpBuilder builder = OpBuilder::atBlockBegin(op.bodyBlock());
    Location loc = op.getLoc();
    Value mask;
    if (!isExact) {
      Value index =
          IndexOp::create(builder, loc, builder.getI64Type(), ExprAttr::get(op.getContext(), position), ValueRange());
      Value extent = IndexOp::create(builder, loc, builder.getI64Type(),
                                     ExprAttr::get(op.getContext(), axis.getExtent()), ValueRange());
      mask = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, index, extent);
    }
    for (Operation &inner :
         llvm::make_early_inc_range(llvm::make_range(builder.getInsertionPoint(), op.bodyBlock()->end()))) {
      builder.setInsertionPoint(&inner);
      auto conjoin = [&](Value other) -> Value {
        return other ? arith::AndIOp::create(builder, loc, mask, other).getResult() : mask;
      };
      if (auto load = dyn_cast<LoadOp>(inner)) {
        SmallVector<SizeExpr> indices =
            llvm::map_to_vector(load.indexExprs(), [&](SizeExpr e) { return substitution.apply(sizes, e); });
        load.setIndicesAttr(exprArray(op.getContext(), indices));
        if (mask) {
          if (!load.getOther())
            load.getOtherMutable().assign(arith::ConstantOp::create(builder, loc, builder.getZeroAttr(load.getType())));
          load.getMaskMutable().assign(conjoin(load.getMask()));
        }
      } else if (auto index = dyn_cast<IndexOp>(inner)) {
        index.setExprAttr(ExprAttr::get(op.getContext(), substitution.apply(sizes, index.getExpr().getValue())));
      } else if (auto check = dyn_cast<CheckIndexOp>(inner); check && mask) {
        check.getMaskMutable().assign(conjoin(check.getMask()));
      } else if (auto yield = dyn_cast<YieldOp>(inner); yield && mask) {
        for (auto [k, init] : llvm::enumerate(op.getInitsAttr())) {
          Value identity = arith::ConstantOp::create(builder, loc, cast<TypedAttr>(init));
          yield.setOperand(k, arith::SelectOp::create(builder, loc, mask, yield.getOperand(k), identity));
        }
      }
    }
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
