#include "compiler/fusion/Storage.h"

#include "compiler/analysis/Memory.h"
#include "compiler/fusion/Combiner.h"
#include "compiler/fusion/Group.h"

#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

void collectSymbols(Operation *op, llvm::function_ref<void(std::string_view)> fn) {
  AttrTypeWalker walker;
  auto visit = [&](SizeExpr e) {
    for (std::string_view name : e.symbols())
      fn(name);
  };
  walker.addWalk([&](GraphTensorType type) {
    llvm::for_each(type.getSizes(), visit);
    llvm::for_each(type.getStrides(), visit);
  });
  walker.addWalk([&](SizeType type) { visit(type.getExpr()); });
  walker.addWalk([&](ExprAttr attr) { visit(attr.getValue()); });
  walker.addWalk([&](AxisAttr attr) { visit(attr.getExtent()); });
  op->walk([&](Operation *inner) {
    walker.walk(inner->getAttrDictionary());
    for (Type type : inner->getOperandTypes())
      walker.walk(type);
    for (Type type : inner->getResultTypes())
      walker.walk(type);
  });
}

const char *findStorageHazard(const Group &group, SizeContext &sizes, const SizeFacts &symbols) {
  std::optional<SizeFacts> facts;
  for (auto [w, writer] : llvm::enumerate(group.members)) {
    LoopsOp writing = writer.op;
    for (Value dest : writing.getDests()) {
      analysis::Values places = analysis::placesOf(dest);
      auto isMade = [&](Value value) { return group.producers.contains(value); };
      auto before = dest.getDefiningOp<LoopsOp>();
      bool updatesToo = isMade(dest) && commute(writing, before);
      if ((isMade(dest) && !updatesToo) || llvm::any_of(places, isMade))
        return "writes a buffer that the group makes";
      for (auto [m, member] : llvm::enumerate(group.members)) {
        LoopsOp op = member.op;
        if (m == w)
          continue; // its own reads are as they were before it was in a group
        if (!commute(writing, op) &&
            llvm::any_of(op.getDests(), [&](Value other) { return analysis::mayLieIn(other, places); }))
          return "writes a buffer that the group writes";
        for (Operation &inner : *op.bodyBlock()) {
          auto load = dyn_cast<LoadOp>(inner);
          if (!load || isMade(load.getSource()) || !analysis::mayLieIn(load.getSource(), places))
            continue;
          if (m > w)
            return "reads a buffer that the group writes";
          if (!facts)
            facts.emplace(withAxes(symbols, group.axes));
          SmallVector<SizeExpr> written =
              llvm::map_to_vector(resultIndices(writer, sizes), [&](SizeExpr e) { return facts->simplify(e); });
          if (writing.isFreeScatter() || load.getSource() != dest || !load.getScalars().empty() ||
              written != loadIndices(member, load, sizes, *facts))
            return "writes a buffer that the group reads elsewhere";
          // Values along the reduced axes may be computed again in each stage, after the write.
          if (group.hasReducedAxes() && (member.isFull || writer.isFull))
            return "writes a buffer that a later stage may read again";
        }
      }
    }
  }
  return nullptr;
}

} // namespace torch_tile::fusion
