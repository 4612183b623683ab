#include "compiler/fusion/Access.h"

using namespace llvm;

namespace torch_tile::fusion {

SizeExpr linearOffset(SizeContext &sizes, ArrayRef<SizeExpr> indices, ArrayRef<SizeExpr> strides) {
  SizeExpr offset = sizes.constant(0);
  for (auto [index, stride] : llvm::zip(indices, strides))
    offset = sizes.add(offset, sizes.mul(index, stride));
  return offset;
}

std::optional<SizeExpr> strideAlong(SizeContext &sizes, SizeExpr offset, StringRef axis) {
  SizeExpr stride = sizes.constant(0);
  if (!offset.contains(axis))
    return stride;
  for (const SizeTerm &term : SizeContext::terms(offset)) {
    bool found = false;
    SizeExpr factor = sizes.constant(term.coefficient);
    for (const auto &[atom, power] : term.factors) {
      if (atom.symbol() && StringRef(*atom.symbol()) == axis) {
        if (power != 1)
          return std::nullopt;
        found = true;
        continue;
      }
      if (atom.contains(axis))
        return std::nullopt;
      for (int k = 0; k < power; ++k)
        factor = sizes.mul(factor, atom);
    }
    if (found)
      stride = sizes.add(stride, factor);
  }
  return stride;
}

SizeExpr withoutAxis(SizeContext &sizes, SizeExpr offset, StringRef axis) {
  if (!offset.contains(axis))
    return offset;
  return sizes.substitute(
      offset, [&](std::string_view name) { return StringRef(name) == axis ? sizes.constant(0) : SizeExpr(); });
}

bool readsOwnPoint(mlir::graph::LoadOp load, SizeContext &sizes) {
  SmallVector<mlir::graph::AxisAttr> axes = load->getParentOfType<mlir::graph::LoopsOp>().axisList();
  SmallVector<SizeExpr> indices = load.indexExprs();
  return load.getScalars().empty() && axes.size() == indices.size() &&
         llvm::all_of(llvm::zip_equal(axes, indices), [&](auto pair) {
           auto [axis, index] = pair;
           return index == sizes.symbol(axis.getName().getValue()) ||
                  (axis.getExtent().isConstant(1) && index.isConstant(0));
         });
}

} // namespace torch_tile::fusion
