// Building expressions: what is folded here holds for all values of the symbols, given that no divisor is zero.
#include "support/ExprBudget.h"
#include "support/FloatSizes.h"
#include "support/SizeNodes.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

using namespace torch_tile;
using namespace torch_tile::detail;

// A product of sums with more terms than this is refused as if it had overflowed.
static constexpr size_t maxProductTerms = 1 << 14;

bool SizeExpr::isValid() const { return node && node->valid; }
bool SizeExpr::isConstant() const { return constant().has_value(); }
bool SizeExpr::isConstant(int64_t value) const { return constant() == value; }

std::optional<int64_t> SizeExpr::constant() const {
  if (!isValid() || node->terms.size() > 1)
    return std::nullopt;
  if (node->terms.empty())
    return 0;
  if (node->terms[0].monomial->degree != 0)
    return std::nullopt;
  return node->terms[0].coefficient;
}

std::optional<std::string_view> SizeExpr::symbol() const {
  const SizeAtom *atom = node ? asAtom(*this) : nullptr;
  if (!atom || !atom->isSymbol)
    return std::nullopt;
  return atom->name;
}

SizeContext &SizeExpr::context() const { return *node->context; }

std::vector<std::string_view> SizeExpr::symbols() const {
  std::vector<std::string_view> names;
  for (const SizeAtom *symbol : node->symbols)
    names.push_back(symbol->name);
  return names;
}

bool SizeExpr::contains(std::string_view symbol) const {
  return std::any_of(node->symbols.begin(), node->symbols.end(),
                     [&](const SizeAtom *each) { return each->name == symbol; });
}

uint32_t torch_tile::treeSize(SizeExpr e) { return e.get()->treeSize; }

SizeContext::SizeContext() : pimpl(std::make_unique<Impl>(*this)) {}
SizeContext::~SizeContext() = default;

SizeExpr SizeContext::constant(int64_t value) { return pimpl->fromTerm(value, pimpl->unit); }

SizeExpr SizeContext::symbol(std::string_view name) { return pimpl->fromAtom(pimpl->symbolAtom(name)); }

SizeExpr SizeContext::add(SizeExpr a, SizeExpr b) {
  assert(a && b && &a.context() == this && &b.context() == this && "expressions of another context");
  if (!a.isValid() || !b.isValid())
    return SizeExpr(pimpl->invalid);
  auto x = a.get()->terms, y = b.get()->terms;
  if (x.empty() || y.empty())
    return x.empty() ? b : a;
  std::vector<SizeTermNode> terms;
  terms.reserve(x.size() + y.size());
  size_t i = 0, j = 0;
  while (i < x.size() && j < y.size()) {
    int c = compareMonomials(x[i].monomial, y[j].monomial);
    if (c != 0) {
      terms.push_back(c < 0 ? x[i++] : y[j++]);
      continue;
    }
    int64_t sum;
    if (__builtin_add_overflow(x[i].coefficient, y[j].coefficient, &sum))
      return SizeExpr(pimpl->invalid);
    if (sum != 0)
      terms.push_back({sum, x[i].monomial});
    ++i, ++j;
  }
  terms.insert(terms.end(), x.begin() + i, x.end());
  terms.insert(terms.end(), y.begin() + j, y.end());
  return pimpl->fromTerms(terms);
}

SizeExpr SizeContext::neg(SizeExpr a) {
  return a.isValid() ? pimpl->scale(a, -1, pimpl->unit) : SizeExpr(pimpl->invalid);
}

SizeExpr SizeContext::sub(SizeExpr a, SizeExpr b) { return a == b && a.isValid() ? constant(0) : add(a, neg(b)); }

SizeExpr SizeContext::mul(SizeExpr a, SizeExpr b) {
  assert(a && b && &a.context() == this && &b.context() == this && "expressions of another context");
  if (!a.isValid() || !b.isValid())
    return SizeExpr(pimpl->invalid);
  if (a.get()->terms.size() < b.get()->terms.size())
    std::swap(a, b);
  auto x = a.get()->terms, y = b.get()->terms;
  if (y.empty())
    return b;
  if (y.size() == 1)
    return pimpl->scale(a, y[0].coefficient, y[0].monomial);
  if (x.size() * y.size() > maxProductTerms)
    return SizeExpr(pimpl->invalid);
  std::vector<SizeTermNode> terms;
  terms.reserve(x.size() * y.size());
  for (const SizeTermNode &s : x)
    for (const SizeTermNode &t : y) {
      SizeTermNode product;
      if (__builtin_mul_overflow(s.coefficient, t.coefficient, &product.coefficient) ||
          !(product.monomial = pimpl->multiply(s.monomial, t.monomial)))
        return SizeExpr(pimpl->invalid);
      terms.push_back(product);
    }
  return pimpl->fromUnsortedTerms(terms);
}

/// The call if `e` is exactly one call of `fn`.
static const SizeAtom *asCallOf(SizeExpr e, SizeFn fn) {
  const SizeAtom *atom = asAtom(e);
  return atom && !atom->isSymbol && atom->fn == fn ? atom : nullptr;
}

namespace {
/// e == factor * reduced + rest with 0 <= rest < factor; the same factor is taken from the divisor.
struct ReducedDivision {
  SizeExpr factor, reduced, divisor, rest;
};
} // namespace

/// Takes out what all non-constant terms of `e` share with `divisor`; with a constant divisor the constant term need
/// not share it.
static std::optional<ReducedDivision> reduceDivision(SizeContext &context, SizeExpr e, SizeExpr divisor) {
  SizeContext::Impl &impl = context.impl();
  SizeExpr rest = context.constant(0);
  auto terms = e.get()->terms;
  if (divisor.isConstant() && terms.back().monomial->degree == 0) {
    rest = context.constant(terms.back().coefficient);
    e = impl.fromTerms(terms.first(terms.size() - 1));
  }
  SizeTermNode factor = impl.commonFactor(e, divisor);
  if (factor.coefficient == 1 && factor.monomial->degree == 0)
    return std::nullopt;
  SizeExpr factorExpr = impl.fromTerm(factor.coefficient, factor.monomial);
  SizeExpr reduced = impl.divideByTerm(e, factor);
  if (int64_t value = *rest.constant()) {
    reduced = context.add(reduced, context.constant(*floorDivInt(value, factor.coefficient)));
    rest = context.constant(*floorModInt(value, factor.coefficient));
  }
  return ReducedDivision{factorExpr, reduced, impl.divideByTerm(divisor, factor), rest};
}

SizeExpr SizeContext::floorDiv(SizeExpr a, SizeExpr b) {
  Impl &self = *pimpl;
  SizeExpr invalid(self.invalid);
  if (!a.isValid() || !b.isValid() || b.isConstant(0))
    return invalid;
  if (a.isConstant(0) || b.isConstant(1))
    return a;
  if (a == b)
    return constant(1);
  if (a.isConstant() && b.isConstant()) {
    auto value = floorDivInt(*a.constant(), *b.constant());
    return value ? constant(*value) : invalid;
  }
  if (b.get()->terms[0].coefficient < 0)
    return floorDiv(neg(a), neg(b));
  auto [quotient, remainder] = self.split(a, b);
  auto c = b.constant();
  // With a constant divisor a constant remainder lies in [0, c).
  if (remainder.isConstant(0) || (c && remainder.isConstant()))
    return quotient;
  if (auto r = reduceDivision(*this, remainder, b))
    return add(quotient, floorDiv(r->reduced, r->divisor));
  if (c) {
    // (x // d) // c == x // (d*c) for c > 0; (x % d) // c == (x // c) % (d/c) where c divides d.
    if (const SizeAtom *inner = asCallOf(remainder, SizeFn::FloorDiv)) {
      SizeExpr divisor = mul(inner->args[1], b);
      if (divisor.isValid())
        return add(quotient, floorDiv(inner->args[0], divisor));
    }
    if (const SizeAtom *inner = asCallOf(remainder, SizeFn::Mod)) {
      auto d = inner->args[1].constant();
      if (d && *d % *c == 0)
        return add(quotient, mod(floorDiv(inner->args[0], b), constant(*d / *c)));
    }
  }
  return add(quotient, self.callExpr(SizeFn::FloorDiv, {remainder, b}));
}

SizeExpr SizeContext::mod(SizeExpr a, SizeExpr b) {
  Impl &self = *pimpl;
  if (!a.isValid() || !b.isValid() || b.isConstant(0))
    return SizeExpr(self.invalid);
  if (a.isConstant(0) || b.isConstant(1) || a == b)
    return constant(0);
  if (a.isConstant() && b.isConstant())
    return constant(*floorModInt(*a.constant(), *b.constant()));
  if (b.get()->terms[0].coefficient < 0)
    return neg(mod(neg(a), neg(b)));
  SizeExpr remainder = self.split(a, b).remainder;
  auto c = b.constant();
  if (remainder.isConstant(0) || (c && remainder.isConstant()))
    return remainder;
  if (auto r = reduceDivision(*this, remainder, b))
    return add(mul(r->factor, mod(r->reduced, r->divisor)), r->rest);
  if (const SizeAtom *inner = asCallOf(remainder, SizeFn::Mod))
    if (self.exactQuotient(inner->args[1], b))
      return mod(inner->args[0], b);
  return self.callExpr(SizeFn::Mod, {remainder, b});
}

SizeExpr SizeContext::ceilDiv(SizeExpr a, SizeExpr b) {
  if (b.isConstant() && *b.constant() > 0)
    return floorDiv(add(a, constant(*b.constant() - 1)), b);
  return neg(floorDiv(neg(a), b));
}

SizeExpr SizeContext::Impl::minOrMax(SizeFn fn, std::span<const SizeExpr> args) {
  std::vector<SizeExpr> kept;
  auto insert = [&](SizeExpr arg) {
    // Of two arguments a known distance apart one always wins.
    for (SizeExpr &other : kept)
      if (auto distance = owner.sub(arg, other).constant()) {
        if ((*distance < 0) == (fn == SizeFn::Min))
          other = arg;
        return;
      }
    kept.push_back(arg);
  };
  for (SizeExpr arg : args) {
    if (!arg.isValid())
      return SizeExpr(invalid);
    if (const SizeAtom *nested = asCallOf(arg, fn))
      std::for_each(nested->args.begin(), nested->args.end(), insert);
    else
      insert(arg);
  }
  std::sort(kept.begin(), kept.end(), [](SizeExpr a, SizeExpr b) { return compareExprs(a, b) < 0; });
  return kept.size() == 1 ? kept[0] : fromAtom(callAtom(fn, kept));
}

SizeExpr SizeContext::min(SizeExpr a, SizeExpr b) { return call(SizeFn::Min, {a, b}); }
SizeExpr SizeContext::max(SizeExpr a, SizeExpr b) { return call(SizeFn::Max, {a, b}); }

static SizeExpr truncDiv(SizeContext &context, SizeExpr a, SizeExpr b) {
  SizeContext::Impl &impl = context.impl();
  if (!a.isValid() || !b.isValid() || b.isConstant(0))
    return SizeExpr(impl.invalid);
  if (a.isConstant() && b.isConstant()) {
    auto value = truncDivInt(*a.constant(), *b.constant());
    return value ? context.constant(*value) : SizeExpr(impl.invalid);
  }
  if (SizeExpr quotient = impl.exactQuotient(a, b))
    return quotient;
  return impl.callExpr(SizeFn::TruncDiv, {a, b});
}

SizeExpr SizeContext::Impl::floatCall(SizeFn fn, SizeExpr a, SizeExpr b) {
  if (!a.isValid() || !b.isValid())
    return SizeExpr(invalid);
  if (!a.isConstant() || !b.isConstant())
    return callExpr(fn, {a, b});
  auto value = applyFloatFn(floatFn(fn), *a.constant(), *b.constant());
  return value ? owner.constant(*value) : SizeExpr(invalid);
}

SizeExpr SizeContext::call(SizeFn fn, const std::vector<SizeExpr> &args) {
  if (isFloatFn(fn))
    return pimpl->floatCall(fn, args.at(0), args.at(1));
  switch (fn) {
  case SizeFn::FloorDiv:
  case SizeFn::CleanDiv: // an exact division, so any rounding will do
    return floorDiv(args.at(0), args.at(1));
  case SizeFn::Mod:
  case SizeFn::PythonMod: // Mod is total here, so the two are one
    return mod(args.at(0), args.at(1));
  case SizeFn::CeilDiv:
    return ceilDiv(args.at(0), args.at(1));
  case SizeFn::TruncDiv:
    return truncDiv(*this, args.at(0), args.at(1));
  case SizeFn::Min:
  case SizeFn::Max:
    assert(!args.empty() && "min and max need an argument");
    return pimpl->minOrMax(fn, args);
  }
  return SizeExpr(pimpl->invalid);
}

static SizeExpr replaceSymbols(SizeContext &context, SizeExpr e,
                               const std::function<SizeExpr(std::string_view)> &replacement,
                               std::unordered_map<const SizeAtom *, SizeExpr> &memo) {
  auto replaceAtom = [&](const SizeAtom *atom) {
    auto it = memo.find(atom);
    if (it != memo.end())
      return it->second;
    SizeExpr result(atom->node);
    if (atom->isSymbol) {
      if (SizeExpr r = replacement(atom->name))
        result = r;
    } else {
      std::vector<SizeExpr> args;
      for (SizeExpr arg : atom->args)
        args.push_back(replaceSymbols(context, arg, replacement, memo));
      if (!std::equal(args.begin(), args.end(), atom->args.begin()))
        result = context.call(atom->fn, args);
    }
    memo.emplace(atom, result);
    return result;
  };
  bool changed = false;
  for (const SizeTermNode &t : e.get()->terms)
    for (const SizeFactor &f : t.monomial->factors)
      changed |= replaceAtom(f.atom).get() != f.atom->node;
  if (!changed)
    return e;
  SizeExpr sum = context.constant(0);
  for (const SizeTermNode &t : e.get()->terms) {
    SizeExpr product = context.constant(t.coefficient);
    for (const SizeFactor &f : t.monomial->factors)
      for (int32_t i = 0; i < f.power; ++i)
        product = context.mul(product, replaceAtom(f.atom));
    sum = context.add(sum, product);
  }
  return sum;
}

SizeExpr SizeContext::substitute(SizeExpr e, const std::function<SizeExpr(std::string_view)> &replacement) {
  std::unordered_map<const SizeAtom *, SizeExpr> memo;
  return e.isValid() ? replaceSymbols(*this, e, replacement, memo) : e;
}

std::vector<SizeTerm> SizeContext::terms(SizeExpr e) {
  std::vector<SizeTerm> result;
  for (const SizeTermNode &t : e.get()->terms) {
    SizeTerm &term = result.emplace_back(SizeTerm{t.coefficient, {}});
    for (const SizeFactor &f : t.monomial->factors)
      term.factors.emplace_back(SizeExpr(f.atom->node), f.power);
  }
  return result;
}

std::optional<SizeCall> SizeContext::asCall(SizeExpr e) {
  const SizeAtom *atom = asAtom(e);
  if (!atom || atom->isSymbol)
    return std::nullopt;
  return SizeCall{atom->fn, {atom->args.begin(), atom->args.end()}};
}

namespace {
/// One evaluation: every atom has one value, however often it occurs.
class Evaluator {
public:
  explicit Evaluator(const std::function<std::optional<int64_t>(std::string_view)> &value) : value(value) {}
  std::optional<int64_t> of(SizeExpr e);

private:
  std::optional<int64_t> ofCall(const SizeAtom *atom);
  std::optional<int64_t> ofAtom(const SizeAtom *atom);

  const std::function<std::optional<int64_t>(std::string_view)> &value;
  std::unordered_map<const SizeAtom *, std::optional<int64_t>> known;
};
} // namespace

std::optional<int64_t> Evaluator::ofAtom(const SizeAtom *atom) {
  auto it = known.find(atom);
  return it != known.end() ? it->second : known[atom] = atom->isSymbol ? value(atom->name) : ofCall(atom);
}

std::optional<int64_t> Evaluator::ofCall(const SizeAtom *atom) {
  auto first = of(atom->args[0]);
  if (!first)
    return std::nullopt;
  int64_t result = *first;
  for (SizeExpr arg : atom->args.subspan(1)) {
    auto next = of(arg);
    if (!next)
      return std::nullopt;
    switch (atom->fn) {
    case SizeFn::FloorDiv:
      return floorDivInt(result, *next);
    case SizeFn::Mod:
      return floorModInt(result, *next);
    case SizeFn::TruncDiv:
      return truncDivInt(result, *next);
    case SizeFn::Min:
      result = std::min(result, *next);
      break;
    case SizeFn::Max:
      result = std::max(result, *next);
      break;
    default:
      assert(isFloatFn(atom->fn) && "folded into another function when built");
      return applyFloatFn(floatFn(atom->fn), result, *next);
    }
  }
  return result;
}

std::optional<int64_t> Evaluator::of(SizeExpr e) {
  if (!e.isValid())
    return std::nullopt;
  int64_t sum = 0;
  for (const SizeTermNode &t : e.get()->terms) {
    int64_t product = t.coefficient;
    for (const SizeFactor &f : t.monomial->factors) {
      auto factor = ofAtom(f.atom);
      if (!factor)
        return std::nullopt;
      for (int32_t i = 0; i < f.power; ++i)
        if (__builtin_mul_overflow(product, *factor, &product))
          return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum))
      return std::nullopt;
  }
  return sum;
}

std::optional<int64_t> SizeContext::evaluate(SizeExpr e,
                                             const std::function<std::optional<int64_t>(std::string_view)> &value) {
  return Evaluator(value).of(e);
}
