// Simplification under facts: what index maps of view chains need to lose their divisions.
#include "support/FloatSizes.h"
#include "support/SizeProver.h"

#include <algorithm>
#include <numeric>

using namespace torch_tile;
using namespace torch_tile::detail;

namespace torch_tile::detail {

/// Rewrites one node at a time; every rewrite removes an atom or shrinks what is divided.
class SizeSimplifier {
public:
  explicit SizeSimplifier(const SizeFacts &facts) : facts(facts), context(facts.context), impl(facts.context.impl()) {}

  SizeExpr simplify(SizeExpr e);
  SizeExpr floorDiv(SizeExpr a, SizeExpr b);
  SizeExpr mod(SizeExpr a, SizeExpr b);

private:
  /// dividend == quotient * divisor + scale * reduced + rest, with rest // scale == 0 and divisor == scale *
  /// reducedDivisor.
  struct Reduction {
    SizeExpr scale, reduced, reducedDivisor, rest;
  };
  SizeSplit splitDivisible(SizeExpr a, SizeExpr b);
  SizeExpr quotientOfDivisible(const SizeTermNode &term, int64_t divisor);
  std::optional<int64_t> constantQuotient(SizeExpr a, SizeExpr b);
  std::optional<Reduction> reduce(SizeExpr a, SizeExpr b);
  SizeExpr simplifyAtom(const SizeAtom *atom);
  SizeExpr minOrMax(SizeFn fn, std::vector<SizeExpr> args);
  SizeExpr quotientOfSum(SizeExpr a, SizeExpr b);
  SizeExpr recombine(SizeExpr e);
  SizeExpr recombineTerm(SizeExpr e, const SizeTermNode &term);
  /// Whether all terms of `part` occur in `e` with the same coefficients.
  static bool includes(SizeExpr e, SizeExpr part);
  static const SizeAtom *callOf(SizeExpr e, SizeFn fn) {
    const SizeAtom *atom = asAtom(e);
    return atom && !atom->isSymbol && atom->fn == fn ? atom : nullptr;
  }

  const SizeFacts &facts;
  SizeContext &context;
  SizeContext::Impl &impl;
};

} // namespace torch_tile::detail

/// An exact quotient by a number that the facts say divides the term, as term without the atom times atom // divisor.
SizeExpr SizeSimplifier::quotientOfDivisible(const SizeTermNode &term, int64_t divisor) {
  int64_t common = std::gcd(term.coefficient, divisor);
  if (common <= 0)
    return SizeExpr();
  SizeExpr needed = context.constant(divisor / common);
  for (const SizeFactor &f : term.monomial->factors) {
    SizeExpr atom = impl.fromAtom(f.atom);
    if (SizeProver(facts).knownDivisor(atom) % static_cast<uint64_t>(divisor / common) == 0)
      return impl.scale(context.floorDiv(atom, needed), term.coefficient / common,
                        impl.divide(term.monomial, f.atom->monomial));
  }
  return SizeExpr();
}

SizeSplit SizeSimplifier::splitDivisible(SizeExpr a, SizeExpr b) {
  SizeSplit s = impl.split(a, b);
  auto c = b.constant();
  if (!c || *c <= 1)
    return s;
  std::vector<SizeTermNode> rest;
  for (const SizeTermNode &t : s.remainder.get()->terms) {
    SizeExpr quotient = t.monomial->degree ? quotientOfDivisible(t, *c) : SizeExpr();
    if (quotient)
      s.quotient = context.add(s.quotient, quotient);
    else
      rest.push_back(t);
  }
  return {s.quotient, impl.fromTerms(rest)};
}

/// a // b if it has one value for all assignments.
std::optional<int64_t> SizeSimplifier::constantQuotient(SizeExpr a, SizeExpr b) {
  if (auto c = b.constant(); c && *c > 0) {
    SizeRange r = facts.range(a);
    SizeRange unbounded;
    if (r.min == unbounded.min || r.max == unbounded.max)
      return std::nullopt;
    int64_t low = *floorDivInt(r.min, *c), high = *floorDivInt(r.max, *c);
    return low == high ? std::optional(low) : std::nullopt;
  }
  auto isBelow = [&](SizeExpr limit) { return SizeProver(facts).isAtLeast(context.sub(limit, a), 1); };
  if (SizeProver(facts).isAtLeast(a, 0))
    return isBelow(b) ? std::optional<int64_t>(0) : std::nullopt;
  if (isBelow(context.constant(0)) && SizeProver(facts).isAtLeast(context.add(a, b), 0))
    return -1;
  return std::nullopt;
}

/// (scale*x + rest) // (scale*d) == x // d where 0 <= rest < scale and d > 0. Candidates for the scale are what single
/// terms of `a` share with `b`, large ones first.
std::optional<SizeSimplifier::Reduction> SizeSimplifier::reduce(SizeExpr a, SizeExpr b) {
  std::vector<SizeTermNode> candidates;
  auto isLess = [](const SizeTermNode &x, const SizeTermNode &y) {
    if (x.monomial != y.monomial)
      return compareMonomials(x.monomial, y.monomial) < 0;
    return x.coefficient > y.coefficient;
  };
  for (const SizeTermNode &t : a.get()->terms) {
    SizeTermNode factor = impl.commonFactor(impl.fromTerm(t.coefficient, t.monomial), b);
    if (factor.coefficient != 1 || factor.monomial->degree != 0)
      candidates.push_back(factor);
  }
  std::sort(candidates.begin(), candidates.end(), isLess);
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (const SizeTermNode &candidate : candidates) {
    SizeExpr scale = impl.fromTerm(candidate.coefficient, candidate.monomial);
    SizeSplit s = splitDivisible(a, scale);
    if (s.quotient.isConstant(0))
      continue;
    SizeExpr divisor = impl.divideByTerm(b, candidate);
    auto offset = constantQuotient(s.remainder, scale);
    if (!offset || !SizeProver(facts).isPositiveDivisor(scale) || !SizeProver(facts).isPositiveDivisor(divisor))
      continue;
    SizeExpr rest = context.sub(s.remainder, context.mul(context.constant(*offset), scale));
    return Reduction{scale, context.add(s.quotient, context.constant(*offset)), divisor, rest};
  }
  return std::nullopt;
}

SizeExpr SizeSimplifier::floorDiv(SizeExpr a, SizeExpr b) {
  if (!a.isValid() || !b.isValid() || a.isConstant() || b.isConstant(0) || b.isConstant(1) ||
      b.get()->terms[0].coefficient < 0)
    return context.floorDiv(a, b);
  auto [quotient, remainder] = splitDivisible(a, b);
  if (!quotient.isValid())
    return context.floorDiv(a, b);
  if (remainder.isConstant(0))
    return quotient;
  if (auto q = constantQuotient(remainder, b))
    return context.add(quotient, context.constant(*q));
  if (auto r = reduce(remainder, b); r && r->reduced.isValid())
    return context.add(quotient, floorDiv(r->reduced, r->reducedDivisor));
  // (x // d) // b == x // (d*b) for b > 0, and (x % d) // b == (x // b) % (d/b) for d/b > 0.
  if (const SizeAtom *inner = callOf(remainder, SizeFn::FloorDiv); inner && SizeProver(facts).isPositiveDivisor(b)) {
    SizeExpr divisor = context.mul(inner->args[1], b);
    if (divisor.isValid())
      return context.add(quotient, floorDiv(inner->args[0], divisor));
  }
  if (const SizeAtom *inner = callOf(remainder, SizeFn::Mod))
    if (SizeExpr d = impl.exactQuotient(inner->args[1], b); d && SizeProver(facts).isPositiveDivisor(d))
      return context.add(quotient, mod(floorDiv(inner->args[0], b), d));
  return context.add(quotient, context.floorDiv(remainder, b));
}

SizeExpr SizeSimplifier::mod(SizeExpr a, SizeExpr b) {
  if (!a.isValid() || !b.isValid() || a.isConstant() || b.isConstant(0) || b.isConstant(1) ||
      b.get()->terms[0].coefficient < 0)
    return context.mod(a, b);
  SizeExpr remainder = splitDivisible(a, b).remainder;
  if (remainder.isConstant(0))
    return remainder;
  if (auto q = constantQuotient(remainder, b)) {
    SizeExpr rest = context.sub(remainder, context.mul(context.constant(*q), b));
    if (rest.isValid())
      return rest;
  }
  if (auto r = reduce(remainder, b); r && r->reduced.isValid() && r->rest.isValid()) {
    SizeExpr result = context.add(context.mul(r->scale, mod(r->reduced, r->reducedDivisor)), r->rest);
    if (result.isValid())
      return result;
  }
  // c*(x % d) == c*x modulo b where b divides c*d.
  for (const SizeTermNode &t : remainder.get()->terms)
    for (const SizeFactor &f : t.monomial->factors) {
      if (f.atom->isSymbol || f.atom->fn != SizeFn::Mod)
        continue;
      SizeExpr others = impl.fromTerm(t.coefficient, impl.divide(t.monomial, f.atom->monomial));
      if (!impl.exactQuotient(context.mul(others, f.atom->args[1]), b))
        continue;
      SizeExpr rest = context.sub(remainder, impl.fromTerm(t.coefficient, t.monomial));
      SizeExpr replaced = context.add(rest, context.mul(others, f.atom->args[0]));
      if (replaced.isValid())
        return mod(replaced, b);
    }
  return context.mod(remainder, b);
}

SizeExpr SizeSimplifier::minOrMax(SizeFn fn, std::vector<SizeExpr> args) {
  std::vector<SizeExpr> kept;
  for (SizeExpr arg : args) {
    auto wins = [&](SizeExpr a, SizeExpr b) {
      return (fn == SizeFn::Min ? facts.lessEqual(a, b) : facts.lessEqual(b, a)) == Proof::Yes;
    };
    if (std::any_of(kept.begin(), kept.end(), [&](SizeExpr other) { return wins(other, arg); }))
      continue;
    std::erase_if(kept, [&](SizeExpr other) { return wins(arg, other); });
    kept.push_back(arg);
  }
  return context.call(fn, kept);
}

SizeExpr SizeSimplifier::simplifyAtom(const SizeAtom *atom) {
  SizeExpr e = impl.fromAtom(atom);
  if (atom->isSymbol) {
    SizeRange r = facts.range(e);
    return r.min == r.max ? context.constant(r.min) : e;
  }
  std::vector<SizeExpr> args;
  for (SizeExpr arg : atom->args)
    args.push_back(facts.simplify(arg));
  switch (atom->fn) {
  case SizeFn::FloorDiv:
    return floorDiv(args[0], args[1]);
  case SizeFn::Mod:
    return mod(args[0], args[1]);
  case SizeFn::TruncDiv:
    if (SizeProver(facts).isAtLeast(args[0], 0) && SizeProver(facts).isPositiveDivisor(args[1]))
      return floorDiv(args[0], args[1]);
    return context.call(atom->fn, args);
  default:
    return isFloatFn(atom->fn) ? context.call(atom->fn, args) : minOrMax(atom->fn, args);
  }
}

bool SizeSimplifier::includes(SizeExpr e, SizeExpr part) {
  auto terms = e.get()->terms;
  auto it = terms.begin();
  for (const SizeTermNode &t : part.get()->terms) {
    while (it != terms.end() && it->monomial != t.monomial)
      ++it;
    if (it == terms.end() || it->coefficient != t.coefficient)
      return false;
  }
  return true;
}

/// (m + x // d) // b as one division, (m*d + x) // (d*b), for constants d, b > 0; null if `a` is no such sum.
SizeExpr SizeSimplifier::quotientOfSum(SizeExpr a, SizeExpr b) {
  std::optional<int64_t> divisor = b.constant();
  if (!divisor || *divisor <= 0)
    return SizeExpr();
  for (const SizeTermNode &t : a.get()->terms) {
    SizeExpr term = impl.fromTerm(t.coefficient, t.monomial);
    const SizeAtom *inner = callOf(term, SizeFn::FloorDiv);
    if (!inner || inner->args[1].constant().value_or(0) <= 0)
      continue;
    SizeExpr sum = context.add(context.mul(context.sub(a, term), inner->args[1]), inner->args[0]);
    SizeExpr whole = context.mul(inner->args[1], b);
    return sum.isValid() && whole.isValid() ? floorDiv(sum, whole) : SizeExpr();
  }
  return SizeExpr();
}

/// Joins what division took apart, around one term of `e`; null if nothing fits.
SizeExpr SizeSimplifier::recombineTerm(SizeExpr e, const SizeTermNode &term) {
  for (const SizeFactor &f : term.monomial->factors) {
    if (f.atom->isSymbol || (f.atom->fn != SizeFn::Mod && f.atom->fn != SizeFn::FloorDiv))
      continue;
    SizeExpr a = f.atom->args[0], b = f.atom->args[1];
    SizeExpr self = impl.fromTerm(term.coefficient, term.monomial);
    SizeExpr scale = impl.fromTerm(term.coefficient, impl.divide(term.monomial, f.atom->monomial));
    SizeExpr rest = context.sub(e, self);
    if (f.atom->fn == SizeFn::FloorDiv) {
      SizeExpr multiple = impl.exactQuotient(scale, b);
      if (!multiple)
        continue;
      // b * (a // b) == a where b divides a.
      if (facts.divides(b, a) == Proof::Yes)
        return context.add(rest, context.mul(multiple, a));
      // a - b * (a // b) == a % b.
      SizeExpr whole = context.neg(context.mul(multiple, a));
      if (whole.isValid() && includes(rest, whole))
        return context.sub(context.sub(rest, whole), context.mul(multiple, mod(a, b)));
      continue;
    }
    SizeExpr upper = floorDiv(a, b);
    SizeExpr scaledDivisor = context.mul(scale, b);
    if (!upper.isValid() || !scaledDivisor.isValid())
      continue;
    // a % b + b * (a // b) == a.
    for (SizeExpr quotient : {upper, quotientOfSum(a, b)}) {
      SizeExpr part = quotient ? context.mul(scaledDivisor, quotient) : SizeExpr();
      if (part && part.isValid() && !part.isConstant(0) && includes(rest, part))
        return context.add(context.sub(rest, part), context.mul(scale, a));
    }
    // a % b + b * ((a // b) % c) == a % (b*c) for b, c > 0.
    for (const SizeTermNode &other : rest.get()->terms)
      for (const SizeFactor &g : other.monomial->factors) {
        if (g.atom->isSymbol || g.atom->fn != SizeFn::Mod || g.atom->args[0] != upper)
          continue;
        SizeExpr otherTerm = impl.fromTerm(other.coefficient, other.monomial);
        SizeExpr otherScale = impl.fromTerm(other.coefficient, impl.divide(other.monomial, g.atom->monomial));
        SizeExpr divisor = context.mul(b, g.atom->args[1]);
        if (otherScale == scaledDivisor && divisor.isValid() && SizeProver(facts).isPositiveDivisor(b) &&
            SizeProver(facts).isPositiveDivisor(g.atom->args[1]))
          return context.add(context.sub(rest, otherTerm), context.mul(scale, mod(a, divisor)));
      }
  }
  return SizeExpr();
}

SizeExpr SizeSimplifier::recombine(SizeExpr e) {
  // Every step joins two terms, so a few rounds reach the end; the limit only guards against rules that undo each
  // other.
  for (size_t round = 0; round < 16 && e.isValid(); ++round) {
    SizeExpr next;
    for (const SizeTermNode &t : e.get()->terms)
      if ((next = recombineTerm(e, t)))
        break;
    if (!next || !next.isValid())
      return e;
    e = next;
  }
  return e;
}

SizeExpr SizeSimplifier::simplify(SizeExpr e) {
  SizeExpr sum = context.constant(0);
  for (const SizeTermNode &t : e.get()->terms) {
    SizeExpr product = context.constant(t.coefficient);
    for (const SizeFactor &f : t.monomial->factors) {
      SizeExpr atom = simplifyAtom(f.atom);
      for (int32_t i = 0; i < f.power; ++i)
        product = context.mul(product, atom);
    }
    sum = context.add(sum, product);
  }
  return recombine(sum);
}

SizeExpr SizeFacts::simplify(SizeExpr e) const {
  if (!e.isValid() || e.isConstant())
    return e;
  auto it = simplified.find(e);
  if (it != simplified.end())
    return it->second;
  SizeExpr result = e;
  // A rewrite may open the way for another; what overflows on the way leaves the expression as it was.
  for (size_t round = 0; round < 4; ++round) {
    SizeExpr next = SizeSimplifier(*this).simplify(result);
    if (!next.isValid() || next == result)
      break;
    result = next;
  }
  simplified.insert_or_assign(e, result);
  simplified.insert_or_assign(result, result);
  return result;
}

SizeExpr SizeFacts::floorDiv(SizeExpr a, SizeExpr b) const { return SizeSimplifier(*this).floorDiv(a, b); }
SizeExpr SizeFacts::mod(SizeExpr a, SizeExpr b) const { return SizeSimplifier(*this).mod(a, b); }
