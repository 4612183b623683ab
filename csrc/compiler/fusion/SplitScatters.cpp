#include "compiler/fusion/Access.h"
#include "compiler/fusion/Combiner.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"

#include "compiler/analysis/Memory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Points that update one element, on average, from which on they wait for each other longer than two more kernels
/// take; and in a scatter of many points, whose indices may name a few elements much more often than others.
constexpr double contended = 2048, contendedOfMany = 256, manyPoints = 1 << 20;
/// Points for each element of a copy: what is cleared and folded is little beside what is read.
constexpr double pointsOfCopied = 32;
/// Copies: as many as neighbouring threads at least, in at most so many bytes, which stay in a GPU's cache.
constexpr int64_t fewestCopies = 8, mostCopies = 1024, mostBytes = 4 << 20;

class Splitter {
public:
  Splitter(FuncOp func, std::vector<FusionDecision> &decisions)
      : func(func), context(func.getContext()), sizes(GraphDialect::sizes(context)), facts(func.facts()),
        decisions(decisions) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(func.getBody().front()))
      if (auto loops = dyn_cast<LoopsOp>(op);
          loops && loops.isFreeScatter() && !loops.getCombine().empty() && loops.getNumResults() == 1)
        consider(loops);
  }

private:
  /// What became of a scatter: the updates of all copies, and their fold into one.
  struct Copied {
    LoopsOp updates, fold, whole;
    Value start; // what was there before the first of several scatters
  };

  double extentOf(AxisAttr axis) { return (double)std::max<int64_t>(1, facts.estimate(axis.getExtent())); }

  void consider(LoopsOp op) {
    Operation *combiner = &op.getCombine().front().front();
    std::optional<TypedAttr> identity = arith::getNeutralElement(combiner);
    if (!identity || !llvm::hasSingleElement(op.getCombine().front().without_terminator()))
      return;
    auto type = cast<GraphTensorType>(op.getResult(0).getType());
    double points = 1, elements = (double)std::max<int64_t>(1, facts.estimate(type.numElements()));
    for (AxisAttr axis : op.axisList())
      points *= extentOf(axis);
    double perElement = points / elements;
    if (perElement < (points < manyPoints ? contended : contendedOfMany))
      return;
    double room = (double)mostBytes / (elements * (double)elementBytes(type.getElementType()));
    double wanted = std::min({perElement / pointsOfCopied, room, (double)mostCopies});
    if (wanted < (double)fewestCopies)
      return;
    int64_t copies = (int64_t)llvm::bit_floor((uint64_t)wanted);
    SizeExpr copy = copyOf(op, copies);
    if (!copy)
      return;
    decisions.push_back({FusionDecision::Kind::Split, true, 0, lineOf(op.getLoc()),
                         "points that update one element would wait for each other"});
    split(op, *identity, copies, copy); // erases it
  }

  /// The copy that a point updates: neighbours along the axes that say nothing of the element have different ones.
  SizeExpr copyOf(LoopsOp op, int64_t copies) {
    SmallVector<SizeExpr> places = op.getWriteAt().indexExprs();
    SizeFacts within = facts;
    SizeExpr position;
    for (AxisAttr axis : op.axisList()) {
      StringRef name = axis.getName().getValue();
      within.setExtent(name, axis.getExtent());
      if (llvm::any_of(places, [&](SizeExpr place) { return place.contains(name); }))
        continue;
      SizeExpr symbol = sizes.symbol(name);
      position = position ? sizes.add(sizes.mul(position, axis.getExtent()), symbol) : symbol;
    }
    return position ? within.simplify(sizes.mod(position, sizes.constant(copies))) : SizeExpr();
  }

  /// Whether neighbouring points update neighbouring elements: copies then lie apart. Otherwise those of an element lie
  /// side by side, where neighbouring points update them.
  static bool writesRuns(LoopsOp op) {
    auto type = cast<GraphTensorType>(op.getResult(0).getType());
    ArrayRef<SizeExpr> strides = type.getStrides();
    SmallVector<SizeExpr> places = op.getWriteAt().indexExprs();
    for (AxisAttr axis : op.axisList())
      for (auto [place, stride, size] : llvm::zip_equal(places, strides, type.getSizes()))
        if (stride.isConstant(1) && !size.isConstant(1) && place.contains(axis.getName().getValue()))
          return true;
    return false;
  }

  ArrayAttr axesOf(ArrayRef<SizeExpr> extents, std::optional<SizeExpr> reduced = std::nullopt) {
    SmallVector<Attribute> axes;
    for (auto [k, extent] : llvm::enumerate(extents))
      axes.push_back(AxisAttr::get(context, StringAttr::get(context, "i" + std::to_string(k)), extent, false));
    if (reduced)
      axes.push_back(AxisAttr::get(context, StringAttr::get(context, "r0"), *reduced, true));
    return ArrayAttr::get(context, axes);
  }

  SmallVector<SizeExpr> pointOf(size_t rank) {
    SmallVector<SizeExpr> point;
    for (size_t k = 0; k < rank; ++k)
      point.push_back(sizes.symbol("i" + std::to_string(k)));
    return point;
  }

  template <typename T> static SmallVector<T> with(ArrayRef<T> list, T copy, bool isOutermost) {
    SmallVector<T> all(list);
    all.insert(isOutermost ? all.begin() : all.end(), copy);
    return all;
  }

  static Value load(OpBuilder &builder, Location loc, Value source, ArrayRef<SizeExpr> at) {
    Type element = scalarType(cast<GraphTensorType>(source.getType()).getElementType());
    return LoadOp::create(builder, loc, element, source, exprArray(builder.getContext(), at), ValueRange(), Value(),
                          Value());
  }

  void split(LoopsOp op, TypedAttr identity, int64_t copies, SizeExpr copy) {
    OpBuilder builder(op);
    auto type = cast<GraphTensorType>(op.getResult(0).getType());
    bool isOutermost = writesRuns(op);
    SmallVector<SizeExpr> extents = with(type.getSizes(), sizes.constant(copies), isOutermost);
    auto manyType = GraphTensorType::getContiguous(context, extents, type.getElementType());
    // One scatter after another into the same elements: so are the copies.
    auto before = wholes.find(op.getDests()[0]);
    bool goesOn = before != wholes.end() && before->first.hasOneUse() &&
                  before->second.updates.getResult(0).getType() == manyType && commute(before->second.updates, op);
    Copied all;
    if (goesOn)
      all = before->second;
    all.start = goesOn ? before->second.start : op.getDests()[0];
    Value many = goesOn ? all.updates.getResult(0) : clear(builder, op.getLoc(), manyType, identity);
    all.updates = LoopsOp::create(builder, op.getLoc(), TypeRange(manyType), op.getAxes(), ValueRange(many),
                                  builder.getDenseI64ArrayAttr({0}), op.getInitsAttr(), ArrayAttr());
    IRMapping mapping, combining;
    op.getBody().cloneInto(&all.updates.getBody(), mapping);
    op.getCombine().cloneInto(&all.updates.getCombine(), combining);
    WriteAtOp write = all.updates.getWriteAt();
    write.setIndicesAttr(exprArray(context, with(ArrayRef(write.indexExprs()), copy, isOutermost)));
    LoopsOp oldFold = all.fold, oldWhole = all.whole;
    all.fold = fold(builder, op, all.updates.getResult(0), identity, copies, isOutermost);
    all.whole = combineWithStart(builder, op, all);
    op.getResult(0).replaceAllUsesWith(all.whole.getResult(0));
    op.erase();
    if (goesOn) {
      wholes.erase(before);
      oldWhole.erase();
      oldFold.erase();
    }
    wholes[all.whole.getResult(0)] = all;
  }

  LoopsOp create(OpBuilder &builder, Location loc, Type type, ArrayAttr axes, ArrayAttr inits = {}) {
    return LoopsOp::create(builder, loc, TypeRange(type), axes, ValueRange(), DenseI64ArrayAttr(), inits, ArrayAttr());
  }

  Value clear(OpBuilder &builder, Location loc, GraphTensorType type, TypedAttr identity) {
    LoopsOp loops = create(builder, loc, type, axesOf(type.getSizes()));
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&loops.getBody());
    YieldOp::create(builder, loc, ValueRange(arith::ConstantOp::create(builder, loc, identity)));
    return loops.getResult(0);
  }

  LoopsOp fold(OpBuilder &builder, LoopsOp op, Value many, TypedAttr identity, int64_t copies, bool isOutermost) {
    auto type = cast<GraphTensorType>(op.getResult(0).getType());
    auto plain = GraphTensorType::getContiguous(context, type.getSizes(), type.getElementType());
    LoopsOp loops = create(builder, op.getLoc(), plain, axesOf(type.getSizes(), sizes.constant(copies)),
                           builder.getArrayAttr({identity}));
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&loops.getBody());
    SmallVector<SizeExpr> point = pointOf(type.getSizes().size());
    Value value =
        load(builder, op.getLoc(), many, with(ArrayRef(point), sizes.symbol(std::string_view("r0")), isOutermost));
    YieldOp::create(builder, op.getLoc(), value);
    IRMapping mapping;
    op.getCombine().cloneInto(&loops.getCombine(), mapping);
    return loops;
  }

  /// What was there before, combined with the fold: where that was an input, in its place.
  LoopsOp combineWithStart(OpBuilder &builder, LoopsOp op, const Copied &all) {
    auto type = cast<GraphTensorType>(op.getResult(0).getType());
    Value place = analysis::placeOf(all.start);
    bool isNew = place && place.getDefiningOp<LoopsOp>();
    auto dests = isNew ? SmallVector<Value>() : SmallVector<Value>{all.start};
    LoopsOp loops =
        LoopsOp::create(builder, op.getLoc(), TypeRange(type), axesOf(type.getSizes()), dests,
                        isNew ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr({0}), ArrayAttr(), ArrayAttr());
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&loops.getBody());
    SmallVector<SizeExpr> point = pointOf(type.getSizes().size());
    Block &combiner = op.getCombine().front();
    IRMapping mapping;
    mapping.map(combiner.getArgument(0), load(builder, op.getLoc(), all.start, point));
    LoopsOp folded = all.fold;
    mapping.map(combiner.getArgument(1), load(builder, op.getLoc(), folded.getResult(0), point));
    for (Operation &inner : combiner.without_terminator())
      builder.clone(inner, mapping);
    YieldOp::create(builder, op.getLoc(), mapping.lookup(combiner.getTerminator()->getOperand(0)));
    return loops;
  }

  FuncOp func;
  MLIRContext *context;
  SizeContext &sizes;
  SizeFacts facts;
  std::vector<FusionDecision> &decisions;
  /// By the result that has taken a scatter's place.
  llvm::DenseMap<Value, Copied> wholes;
};

} // namespace

void splitScatters(FuncOp func, std::vector<FusionDecision> &decisions) { Splitter(func, decisions).run(); }

} // namespace torch_tile::fusion
