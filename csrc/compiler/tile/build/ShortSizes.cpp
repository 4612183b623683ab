#include "compiler/tile/build/ShortSizes.h"

#include "compiler/fusion/Access.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

/// Elements of an axis that is short, and of a run in memory that fills vectors by itself.
static constexpr int64_t longest = 16, fullRun = 64;
/// Points of a nest, some ten microseconds, below which another kernel costs more than it gains.
static constexpr int64_t leastPoints = 1 << 15;
/// Operations of a nest whose code is not made twice: LLVM takes a tenth of a second for them.
static constexpr int mostWork = 300;

static void addSymbols(const FusedLoops &loops, SizeExpr extent, ArrayAttr symbols, FixedSizes &fixed) {
  for (SymbolAttr symbol : symbols.getAsRange<SymbolAttr>()) {
    std::string name = symbol.getName().str();
    if (extent.contains(name))
      fixed[name] = loops.facts().estimate(loops.sizes().symbol(name));
  }
}

/// The axis that an access walks in steps of `step` elements.
static const Axis *axisOfStep(const FusedLoops &loops, SizeExpr offset, int64_t step) {
  auto found = llvm::find_if(loops.axes, [&](const Axis &axis) {
    std::optional<SizeExpr> stride = strideAlong(loops.sizes(), offset, axis.name);
    return stride && std::abs(loops.facts().estimate(*stride)) == step && loops.facts().estimate(axis.extent) > 1;
  });
  return found == loops.axes.end() ? nullptr : found;
}

FixedSizes shortSizes(const FusedLoops &loops, ArrayAttr symbols) {
  FixedSizes fixed;
  double points = 1;
  for (const Axis &axis : loops.axes)
    points *= (double)std::max<int64_t>(1, loops.facts().estimate(axis.extent));
  if (!symbols || points < leastPoints || loops.work() > mostWork)
    return fixed;
  for (const FusedLoops::Access &access : loops.accesses())
    for (int64_t run = 1; run < fullRun;) {
      const Axis *axis = axisOfStep(loops, access.offset, run);
      int64_t length = axis ? loops.facts().estimate(axis->extent) : 0;
      if (!axis || (!axis->extent.isConstant() && length > longest))
        break;
      if (!axis->extent.isConstant())
        addSymbols(loops, axis->extent, symbols, fixed);
      run *= length;
    }
  // What is seen once must be what may be.
  for (auto &[name, value] : fixed) {
    SizeRange range = loops.facts().range(loops.sizes().symbol(name));
    if (value < range.min || value > range.max || value > longest)
      return {};
  }
  return fixed;
}

SizeExpr differs(SizeContext &sizes, const FixedSizes &fixed) {
  SizeExpr sum = sizes.constant(0);
  for (const auto &[name, value] : fixed) {
    SizeExpr size = sizes.symbol(name), seen = sizes.constant(value);
    sum = sizes.add(sum, sizes.max(sizes.sub(size, seen), sizes.sub(seen, size))); // a square might wrap to 0
  }
  return sizes.min(sizes.constant(1), sum);
}

} // namespace torch_tile::tile_build
