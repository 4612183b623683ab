#include "compiler/graph/transforms/IndexMap.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::Proof;
using torch_tile::SizeContext;
using torch_tile::SizeExpr;
using torch_tile::SizeFacts;

SizeExpr mlir::graph::axisSymbol(SizeContext &sizes, char kind, unsigned number) {
  return sizes.symbol(std::string(1, kind) + std::to_string(number));
}

SizeExpr mlir::graph::substituteAxes(SizeContext &sizes, SizeExpr e, ArrayRef<SizeExpr> values) {
  if (e.isConstant())
    return e;
  return sizes.substitute(e, [&](std::string_view name) {
    unsigned number;
    if (name[0] != 'i' || StringRef(name.data() + 1, name.size() - 1).getAsInteger(10, number) ||
        number >= values.size())
      return SizeExpr();
    return values[number];
  });
}

void mlir::graph::setAxisExtents(SizeFacts &facts, char kind, ArrayRef<SizeExpr> extents) {
  for (auto [k, extent] : llvm::enumerate(extents))
    facts.setExtent((std::string(1, kind) + std::to_string(k)), extent);
}

SmallVector<SizeExpr> mlir::graph::broadcastIndices(SizeContext &sizes, ArrayRef<SizeExpr> from, ArrayRef<SizeExpr> at,
                                                    ArrayRef<SizeExpr> to) {
  SmallVector<SizeExpr> indices;
  for (auto [k, size] : llvm::enumerate(from)) {
    SizeExpr index = at[at.size() - from.size() + k], one = sizes.constant(1);
    if (size.isConstant(1))
      index = sizes.constant(0);
    else if (!to.empty() && to[to.size() - from.size() + k] != size)
      index = sizes.mul(index, sizes.min(one, sizes.sub(size, one))); // 1 or the other size: a guard knows
    indices.push_back(index);
  }
  return indices;
}

SizeExpr mlir::graph::linearIndex(SizeContext &sizes, ArrayRef<SizeExpr> extents, ArrayRef<SizeExpr> at) {
  SizeExpr linear = sizes.constant(0);
  for (auto [extent, index] : llvm::zip(extents, at))
    linear = sizes.add(sizes.mul(linear, extent), index);
  return linear;
}

SizeExpr mlir::graph::wrapConstant(SizeContext &sizes, SizeExpr index, SizeExpr size) {
  std::optional<int64_t> constant = index.constant();
  return constant && *constant < 0 ? sizes.add(index, size) : index;
}

namespace {

/// Matches the sizes of a reshape in groups of dimensions with equal products, outermost first, so that index
/// expressions divide only inside a group: [8, 6, s0] -> [48, s0] needs one group for 8*6 -> 48 and one for s0.
class ReshapeGroups {
public:
  ReshapeGroups(ArrayRef<SizeExpr> from, ArrayRef<SizeExpr> to, const SizeFacts &facts)
      : from(from), to(to), facts(facts), sizes(facts.sizes()), indices(from.size(), sizes.constant(0)) {}

  SmallVector<SizeExpr> map() {
    unsigned a = 0, b = 0;
    while (true) {
      // A dimension of size 1 has index 0 and takes part in no group.
      while (a < from.size() && from[a].isConstant(1))
        ++a;
      while (b < to.size() && to[b].isConstant(1))
        ++b;
      if (a == from.size() || b == to.size())
        break;
      unsigned firstA = a, firstB = b;
      growGroup(a, b);
      mapGroup(firstA, a, firstB, b);
    }
    return indices;
  }

private:
  /// Moves a and b past the end of the smallest group that starts at them.
  void growGroup(unsigned &a, unsigned &b) {
    SizeExpr productA = from[a++], productB = to[b++];
    while (productA != productB) {
      bool growA;
      std::optional<int64_t> constantA = productA.constant(), constantB = productB.constant();
      if (constantA && constantB)
        growA = *constantA < *constantB;
      else if (facts.divides(productA, productB) == Proof::Yes)
        growA = true;
      else if (facts.divides(productB, productA) == Proof::Yes)
        growA = false;
      else {
        a = from.size(), b = to.size();
        return;
      }
      if (growA ? a == from.size() : b == to.size()) {
        // What is left over can only be ones, or sizes that are equal for reasons unknown here.
        a = from.size(), b = to.size();
        return;
      }
      SizeExpr &product = growA ? productA : productB;
      product = sizes.mul(product, growA ? from[a++] : to[b++]);
    }
  }

  void mapGroup(unsigned firstA, unsigned endA, unsigned firstB, unsigned endB) {
    SizeExpr linear = sizes.constant(0);
    for (unsigned k = firstB; k < endB; ++k)
      linear = sizes.add(sizes.mul(linear, to[k]), to[k].isConstant(1) ? sizes.constant(0) : axisSymbol(sizes, 'i', k));
    for (unsigned k = endA; k-- > firstA;) {
      if (from[k].isConstant(1) || from[k].isConstant(0))
        continue;
      // The outermost index is in range without a modulus.
      bool outermost = llvm::all_of(from.slice(firstA, k - firstA), [](SizeExpr size) { return size.isConstant(1); });
      indices[k] = outermost ? linear : facts.mod(linear, from[k]);
      if (outermost)
        break;
      linear = facts.floorDiv(linear, from[k]);
    }
  }

  ArrayRef<SizeExpr> from, to;
  const SizeFacts &facts;
  SizeContext &sizes;
  SmallVector<SizeExpr> indices;
};

} // namespace

SmallVector<SizeExpr> mlir::graph::viewIndices(Operation *view, const SizeFacts &facts) {
  SizeContext &sizes = facts.sizes();
  auto result = cast<GraphTensorType>(view->getResult(0).getType());
  ArrayRef<SizeExpr> from = cast<GraphTensorType>(view->getOperand(0).getType()).getSizes();
  SmallVector<SizeExpr> at;
  for (auto [k, extent] : llvm::enumerate(result.getSizes()))
    at.push_back(extent.isConstant(1) ? sizes.constant(0) : axisSymbol(sizes, 'i', k));

  return llvm::TypeSwitch<Operation *, SmallVector<SizeExpr>>(view)
      .Case([&](ViewOp) { return ReshapeGroups(from, result.getSizes(), facts).map(); })
      .Case([&](PermuteOp permute) {
        SmallVector<SizeExpr> indices(from.size());
        for (auto [k, dim] : llvm::enumerate(permute.getDims()))
          indices[dim] = at[k];
        return indices;
      })
      .Case([&](RoundedOp) { return at; })
      .Case([&](ExpandOp) { return broadcastIndices(sizes, from, at, result.getSizes()); })
      .Case([&](SliceOp slice) {
        SizeExpr start = wrapConstant(sizes, exprOf(slice.getStartAttr()), from[slice.getDim()]);
        SizeExpr step = slice.getStepAttr() ? exprOf(slice.getStepAttr()) : sizes.constant(1);
        at[slice.getDim()] = sizes.add(start, sizes.mul(step, at[slice.getDim()]));
        return at;
      })
      .Case([&](UnfoldOp unfold) {
        SizeExpr within = at.pop_back_val();
        SizeExpr &window = at[unfold.getDim()];
        window = sizes.add(sizes.mul(exprOf(unfold.getStepAttr()), window), within);
        return at;
      })
      .Case([&](SelectOp select) {
        at.insert(at.begin() + select.getDim(),
                  wrapConstant(sizes, exprOf(select.getIndexAttr()), from[select.getDim()]));
        return at;
      });
}
