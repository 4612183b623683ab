#include "compiler/fusion/Axes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;
using namespace mlir;

namespace torch_tile::fusion {

llvm::SmallVector<Axis> axesOf(graph::LoopsOp op) {
  return llvm::map_to_vector(op.axisList(), [](graph::AxisAttr axis) {
    return Axis{axis.getName().str(), axis.getExtent(), axis.getReduced()};
  });
}

SizeExpr AxisSubstitution::apply(SizeContext &sizes, SizeExpr expr) const {
  if (values.empty() || expr.isConstant())
    return expr;
  return sizes.substitute(expr, [&](std::string_view name) {
    auto it = values.find(StringRef(name));
    return it == values.end() ? SizeExpr() : it->second;
  });
}

namespace {

/// A bound of the magnitude of expressions; each atom is looked into once.
class Magnitude {
public:
  explicit Magnitude(const SizeFacts &facts) : facts(facts) {}

  double of(SizeExpr e) {
    double sum = 0;
    for (const SizeTerm &term : SizeContext::terms(e)) {
      double product = std::abs((double)term.coefficient);
      for (auto &[atom, power] : term.factors)
        product *= std::pow(ofAtom(atom), power);
      if (product >= largestSize && facts.isExtent(productOf(term)))
        product = std::abs((double)term.coefficient) * largestSize;
      sum += product;
    }
    return sum;
  }

private:
  double ofAtom(SizeExpr atom) {
    if (auto it = known.find(atom.opaque()); it != known.end())
      return it->second;
    double ofArguments = 0, least = INFINITY;
    bool mayWrap = false;
    std::optional<SizeCall> call = SizeContext::asCall(atom);
    if (call)
      for (SizeExpr argument : call->args) {
        double each = of(argument);
        ofArguments = std::max(ofArguments, each);
        least = std::min(least, each);
        mayWrap |= each >= 0x1p62 && !argument.symbol();
      }
    SizeRange range = facts.range(atom);
    double bound = std::max(std::abs((double)range.min), std::abs((double)range.max));
    if (facts.isNumber(atom))
      return known[atom.opaque()] = bound;
    double largest = call ? ofArguments : 0x1p31;
    if (call && call->fn == SizeFn::Min && range.min >= 0 && !mayWrap)
      largest = least;
    // Bounds of sizes beyond what a process can address come of multiples of them that must fit into 64 bits.
    if (largest < 0x1p62 && bound < largestSize)
      largest = bound;
    return known[atom.opaque()] = largest;
  }

  /// The product of the factors of a term, as in the extent of a loop over all elements of a tensor.
  SizeExpr productOf(const SizeTerm &term) {
    SizeExpr product = facts.sizes().constant(1);
    for (auto &[atom, power] : term.factors)
      for (int k = 0; k < power; ++k)
        product = facts.sizes().mul(product, atom);
    return product;
  }

  /// Points of a loop are fewer: they read or write what a process can address.
  static constexpr double largestSize = 0x1p57;

  const SizeFacts &facts;
  llvm::DenseMap<const void *, double> known;
};

} // namespace

bool staysInRange(const SizeFacts &facts, SizeExpr expr) {
  return expr.isValid() && Magnitude(facts).of(expr) < 0x1p62;
}

SizeFacts withAxes(const SizeFacts &symbols, ArrayRef<Axis> axes) {
  SizeFacts facts = symbols;
  for (const Axis &axis : axes)
    facts.setExtent(axis.name, axis.extent);
  return facts;
}

/// Collects c from `axis // c` and `axis % c` anywhere in `expr`; what `seen` holds has been looked through.
static void collectDivisors(SizeExpr expr, StringRef axis, SmallVectorImpl<SizeExpr> &divisors,
                            llvm::DenseSet<const void *> &seen) {
  if (!expr.contains(axis) || !seen.insert(expr.opaque()).second)
    return;
  for (const SizeTerm &term : SizeContext::terms(expr))
    for (const auto &[atom, power] : term.factors) {
      std::optional<SizeCall> call = SizeContext::asCall(atom);
      if (!call)
        continue;
      if ((call->fn == SizeFn::FloorDiv || call->fn == SizeFn::Mod || call->fn == SizeFn::PythonMod ||
           call->fn == SizeFn::CleanDiv) &&
          call->args[0].symbol() && StringRef(*call->args[0].symbol()) == axis &&
          !llvm::is_contained(divisors, call->args[1]))
        divisors.push_back(call->args[1]);
      for (SizeExpr arg : call->args)
        collectDivisors(arg, axis, divisors, seen);
    }
}

/// Adds the digits of an axis, of a chain 1 < c1 | c2 | ... | extent, and gives the axis over them; a divisor that does
/// not fit into the chain stays a division.
static SizeExpr splitAxis(SizeExpr extent, SmallVectorImpl<SizeExpr> &divisors, bool isReduced, StringRef prefix,
                          unsigned &next, const SizeFacts &facts, SmallVectorImpl<Axis> &axes) {
  SizeContext &sizes = facts.sizes();
  llvm::stable_sort(divisors, [&](SizeExpr a, SizeExpr b) { return facts.estimate(a) < facts.estimate(b); });
  SmallVector<SizeExpr> chain{sizes.constant(1)};
  for (SizeExpr divisor : divisors)
    if (facts.divides(chain.back(), divisor) == Proof::Yes && facts.divides(divisor, extent) == Proof::Yes &&
        facts.less(chain.back(), divisor) == Proof::Yes && facts.less(divisor, extent) == Proof::Yes)
      chain.push_back(divisor);
  SizeExpr whole = sizes.constant(0);
  for (size_t k = chain.size(); k-- > 0;) {
    SizeExpr above = k + 1 == chain.size() ? extent : chain[k + 1];
    std::string name = (prefix + Twine(next++)).str();
    axes.push_back({name, facts.floorDiv(above, chain[k]), isReduced});
    whole = sizes.add(whole, sizes.mul(sizes.symbol(name), chain[k]));
  }
  return whole;
}

/// Whether a quotient or a remainder in `expr` changes more than once along some axis.
static bool hasQuotient(SizeExpr expr, ArrayRef<Axis> axes, const SizeFacts &facts,
                        llvm::DenseSet<const void *> &seen) {
  auto varies = [&](SizeExpr e) { return llvm::any_of(axes, [&](const Axis &axis) { return e.contains(axis.name); }); };
  if (!varies(expr) || !seen.insert(expr.opaque()).second)
    return false;
  for (const SizeTerm &term : SizeContext::terms(expr))
    for (const auto &[atom, power] : term.factors) {
      std::optional<SizeCall> call = SizeContext::asCall(atom);
      if (!call || !varies(atom))
        continue;
      if (llvm::is_contained({SizeFn::FloorDiv, SizeFn::Mod, SizeFn::PythonMod, SizeFn::CleanDiv}, call->fn)) {
        SizeRange range = facts.range(call->args[0]);
        std::optional<int64_t> divisor = call->args[1].constant();
        if (!divisor || range.min < 0 || range.max / 2 >= *divisor)
          return true;
      }
      if (llvm::any_of(call->args, [&](SizeExpr arg) { return hasQuotient(arg, axes, facts, seen); }))
        return true;
    }
  return false;
}

bool staysDivided(SizeExpr expr, ArrayRef<Axis> axes, const SizeFacts &facts) {
  llvm::DenseSet<const void *> looked;
  if (!hasQuotient(expr, axes, withAxes(facts, axes), looked))
    return false;
  SmallVector<Axis> digits;
  AxisSubstitution map;
  unsigned next = 0;
  for (const Axis &axis : axes) {
    SmallVector<SizeExpr> divisors;
    llvm::DenseSet<const void *> seen;
    collectDivisors(expr, axis.name, divisors, seen);
    map.set(axis.name, splitAxis(axis.extent, divisors, axis.reduced, "digit", next, facts, digits));
  }
  SizeFacts within = withAxes(facts, digits);
  llvm::DenseSet<const void *> seen;
  return hasQuotient(within.simplify(map.apply(facts.sizes(), expr)), digits, within, seen);
}

SmallVector<Axis> splitAxesOf(graph::LoopsOp op, StringRef prefix, unsigned &next, const SizeFacts &facts,
                              SmallVectorImpl<SizeExpr> &axisMap) {
  SizeContext &sizes = facts.sizes();
  SmallVector<Axis> axes;
  for (graph::AxisAttr axis : op.axisList()) {
    SizeExpr extent = axis.getExtent();
    if (facts.equal(extent, sizes.constant(1)) == Proof::Yes) {
      axisMap.push_back(sizes.constant(0));
      continue;
    }
    SmallVector<SizeExpr> divisors;
    llvm::DenseSet<const void *> seen;
    auto collect = [&](SizeExpr e) { collectDivisors(e, axis.getName().getValue(), divisors, seen); };
    for (Operation &inner : *op.bodyBlock()) {
      if (auto load = dyn_cast<graph::LoadOp>(inner))
        llvm::for_each(load.indexExprs(), collect);
      if (auto write = dyn_cast<graph::WriteAtOp>(inner))
        llvm::for_each(write.indexExprs(), collect);
      if (auto index = dyn_cast<graph::IndexOp>(inner))
        collect(index.getExpr().getValue());
    }
    SizeExpr whole = splitAxis(extent, divisors, axis.getReduced(), prefix, next, facts, axes);
    axisMap.push_back(whole);
  }
  return axes;
}

std::optional<SmallVector<Digit>> digitsOf(SizeExpr expr, SizeExpr extent, ArrayRef<Axis> axes,
                                           const SizeFacts &facts) {
  SizeContext &sizes = facts.sizes();
  SmallVector<Digit> digits;
  if (expr.isConstant(0))
    return facts.equal(extent, sizes.constant(1)) == Proof::Yes ? std::optional(digits) : std::nullopt;

  // Every term must be one axis times a weight free of axes.
  struct Weighted {
    const Axis *axis;
    SizeExpr weight;
  };
  SmallVector<Weighted> weighted;
  for (const SizeTerm &term : SizeContext::terms(expr)) {
    const Axis *axis = nullptr;
    SizeExpr weight = sizes.constant(term.coefficient);
    for (const auto &[atom, power] : term.factors) {
      const Axis *found = nullptr;
      if (std::optional<std::string_view> name = atom.symbol())
        found = llvm::find_if(axes, [&](const Axis &a) { return a.name == *name; });
      if (found && found != axes.end()) {
        if (axis || power != 1)
          return std::nullopt;
        axis = found;
        continue;
      }
      if (llvm::any_of(axes, [&](const Axis &a) { return atom.contains(a.name); }))
        return std::nullopt;
      for (int k = 0; k < power; ++k)
        weight = sizes.mul(weight, atom);
    }
    if (!axis || llvm::any_of(weighted, [&](const Weighted &w) { return w.axis == axis; }))
      return std::nullopt;
    weighted.push_back({axis, weight});
  }

  // The least significant digit has weight 1, the next one the extent of that, and so on.
  SizeExpr weight = sizes.constant(1);
  while (!weighted.empty()) {
    auto next = llvm::find_if(weighted, [&](const Weighted &w) { return facts.equal(w.weight, weight) == Proof::Yes; });
    if (next == weighted.end())
      return std::nullopt;
    digits.push_back({next->axis->name, next->axis->extent});
    weight = sizes.mul(weight, next->axis->extent);
    weighted.erase(next);
  }
  if (facts.equal(weight, extent) != Proof::Yes)
    return std::nullopt;
  std::reverse(digits.begin(), digits.end());
  return digits;
}

bool matchDigits(ArrayRef<Digit> leftDigits, ArrayRef<Digit> rightDigits, const SizeFacts &facts,
                 const DigitMatcher &matcher) {
  SizeContext &sizes = facts.sizes();
  SmallVector<Digit> left(leftDigits), right(rightDigits);
  // From the least significant end: equal digits are one, a multiple is split.
  while (!left.empty() && !right.empty()) {
    Digit l = left.pop_back_val(), r = right.pop_back_val();
    if (facts.equal(l.extent, r.extent) == Proof::Yes) {
      if (!matcher.unify(l, r))
        return false;
    } else if (facts.divides(r.extent, l.extent) == Proof::Yes) {
      SizeExpr outer = facts.floorDiv(l.extent, r.extent);
      auto [outerName, innerName] = matcher.splitLeft(l, outer, r.extent);
      if (!matcher.unify({innerName, r.extent}, r))
        return false;
      left.push_back({outerName, outer});
    } else if (facts.divides(l.extent, r.extent) == Proof::Yes) {
      SizeExpr outer = facts.floorDiv(r.extent, l.extent);
      auto [outerName, innerName] = matcher.splitRight(r, outer, l.extent);
      if (!matcher.unify(l, {innerName, l.extent}))
        return false;
      right.push_back({outerName, outer});
    } else {
      return false;
    }
  }
  auto isOne = [&](const Digit &d) { return facts.equal(d.extent, sizes.constant(1)) == Proof::Yes; };
  return llvm::all_of(left, isOne) && llvm::all_of(right, isOne);
}

} // namespace torch_tile::fusion
