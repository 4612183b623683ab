#include "compiler/tile/build/FusedLoops.h"

#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/graph/ir/Marks.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::AxisSubstitution;
using torch_tile::fusion::linearOffset;

namespace torch_tile::tile_build {

bool isUnaligned(Value buffer, const SizeFacts &facts) {
  constexpr int64_t wordBytes = 16;
  while (auto alias = buffer.getDefiningOp<AliasOp>()) {
    SizeExpr offset = alias.getOffset().getValue();
    int64_t bytes = torch_tile::fusion::elementBytes(alias.getType().getElementType());
    SizeExpr elements = GraphDialect::sizes(buffer.getContext()).constant(wordBytes / std::gcd(wordBytes, bytes));
    if (facts.divides(elements, facts.simplify(offset)) != Proof::Yes)
      return true;
    buffer = alias.getSource();
  }
  if (auto loops = buffer.getDefiningOp<LoopsOp>())
    return loops->hasAttr(kUnalignedPart);
  auto argument = dyn_cast<BlockArgument>(buffer);
  auto func = argument ? dyn_cast<FuncOp>(argument.getOwner()->getParentOp()) : FuncOp();
  return func && func.getArgAttr(argument.getArgNumber(), GraphDialect::unalignedAttrName);
}

FusedLoops::FusedLoops(FusionOp fusion, const SizeFacts &symbols, Walk walk, const FixedSizes &fixed)
    : context(GraphDialect::sizes(fusion.getContext())), symbolFacts(symbols), groupFacts(symbols) {
  auto known = [&](SizeExpr e) {
    return fixed.empty() ? e : context.substitute(e, [&](std::string_view name) {
      auto it = fixed.find(std::string(name));
      return it == fixed.end() ? SizeExpr() : context.constant(it->second);
    });
  };
  for (const auto &[name, value] : fixed)
    groupFacts.setRange(name, value, value);
  for (AxisAttr axis : fusion.getAxes().getAsRange<AxisAttr>())
    axes.push_back({axis.getName().str(), known(axis.getExtent()), axis.getReduced()});
  for (const Axis &axis : axes)
    groupFacts.setExtent(axis.name, axis.extent);

  Block &body = fusion.getBody().front();
  for (Operation &op : body.without_terminator()) {
    auto loops = cast<LoopsOp>(op);
    FusedMember member{loops};
    AxisSubstitution map;
    SmallVector<SizeExpr> resultIndices;
    SmallVector<bool> covered(axes.size(), false);
    for (auto [axis, expr] : llvm::zip(loops.axisList(), exprsOf(*loops.getAxisMap()))) {
      map.set(axis.getName().getValue(), expr);
      if (!axis.getReduced())
        resultIndices.push_back(expr);
      for (auto [k, a] : llvm::enumerate(axes))
        covered[k] = covered[k] || expr.contains(a.name);
    }
    for (auto [k, a] : llvm::enumerate(axes))
      member.isFull = member.isFull && (covered[k] || !a.reduced);
    for (Operation &inner : *loops.bodyBlock()) {
      if (auto load = dyn_cast<LoadOp>(inner)) {
        SmallVector<SizeExpr> indices = llvm::map_to_vector(
            load.indexExprs(), [&](SizeExpr e) { return groupFacts.simplify(known(map.apply(context, e))); });
        // Together, indices of an axis that was split and joined again are one run.
        exprs[load] =
            groupFacts.simplify(known(linearOffset(context, indices, load.getSource().getType().getStrides())));
      } else if (auto index = dyn_cast<IndexOp>(inner)) {
        exprs[index] = groupFacts.simplify(known(map.apply(context, index.getExpr().getValue())));
      } else if (auto write = dyn_cast<WriteAtOp>(inner)) {
        resultIndices = llvm::map_to_vector(
            write.indexExprs(), [&](SizeExpr e) { return groupFacts.simplify(known(map.apply(context, e))); });
      }
    }
    for (Value result : loops.getOutputs())
      offsets[result] =
          known(linearOffset(context, resultIndices, cast<GraphTensorType>(result.getType()).getStrides()));
    memberOf[loops] = members.size();
    members.push_back(member);
  }
  outputs = llvm::to_vector(cast<YieldOp>(body.getTerminator()).getValues());
  orderAxes();
  mergeAxes();
  if (walk != Walk::Accesses && canFlatten())
    flattenAxes(walk);
  assignStages();
}

const FusedMember *FusedLoops::producer(Value value) const {
  auto it = memberOf.find(value.getDefiningOp());
  return it == memberOf.end() ? nullptr : &members[it->second];
}

Value FusedLoops::destOf(Value result) const {
  Value dest = result;
  while (dest && producer(dest)) // scatters that update one buffer write into each other's results
    dest = cast<LoopsOp>(dest.getDefiningOp()).destOf(cast<OpResult>(dest).getResultNumber());
  return dest;
}

const Axis *FusedLoops::axis(StringRef name) const {
  auto it = llvm::find_if(axes, [&](const Axis &a) { return a.name == name; });
  return it == axes.end() ? nullptr : it;
}

SmallVector<FusedLoops::Access> FusedLoops::accesses() const {
  SmallVector<Access> list;
  for (const FusedMember &member : members) {
    LoopsOp op = member.op;
    for (Operation &inner : *op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner); load && !producer(load.getSource()))
        list.push_back({load, load.getSource(), exprOf(load), load.getType(), member.isFull, load.getScalars()});
    for (Value result : op.getOutputs())
      if (llvm::is_contained(outputs, result))
        list.push_back({nullptr, result, offsetOf(result), cast<GraphTensorType>(result.getType()).getElementType(),
                        member.isFull && !op.isReduction(),
                        op.getWriteAt() ? ValueRange(op.getWriteAt().getScalars()) : ValueRange()});
  }
  return list;
}

int FusedLoops::work() const {
  int sum = 0;
  for (const FusedMember &member : members)
    if (member.isFull)
      sum += torch_tile::fusion::bodyCost(member.op).work;
  return sum;
}

void FusedLoops::assignStages() {
  numStages = 1;
  for (FusedMember &member : members) {
    for (Operation &inner : *member.op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner))
        if (const FusedMember *from = producer(load.getSource())) {
          LoopsOp op = from->op;
          // What a reduction makes, and what is made of it, exists once its stage is complete. A member on the parallel
          // axes alone has the stage after which it is computed plus one.
          member.stage = std::max(member.stage, from->stage + (op.isReduction() ? 1 : 0));
        }
    // What overwrites a buffer comes after what reads it.
    for (const FusedMember &other : members) {
      if (member.op.getDests().empty() || &other == &member)
        break;
      LoopsOp op = other.op;
      bool reads = llvm::any_of(*op.bodyBlock(), [&](Operation &inner) {
        auto load = dyn_cast<LoadOp>(inner);
        return load && llvm::is_contained(member.op.getDests(), load.getSource());
      });
      if (reads)
        member.stage = std::max(member.stage, other.stage);
    }
    numStages = std::max(numStages, member.stage + 1);
  }
}

bool FusedLoops::variesAlong(Value value, StringRef axis) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  auto key = std::make_pair(value, (const void *)this->axis(axis));
  if (auto it = varies.find(key); it != varies.end())
    return it->second;
  bool result = false;
  if (auto load = dyn_cast<LoadOp>(op)) {
    if (const FusedMember *from = producer(load.getSource()))
      result = offsetOf(load.getSource()).contains(axis) || (from->isFull && !LoopsOp(from->op).isReduction());
    else
      result = exprOf(load).contains(axis);
  } else if (auto index = dyn_cast<IndexOp>(op)) {
    result = exprOf(index).contains(axis);
  }
  for (Value operand : op->getOperands())
    if (!result && !isa<GraphTensorType>(operand.getType()))
      result = variesAlong(operand, axis);
  varies[key] = result;
  return result;
}

} // namespace torch_tile::tile_build
