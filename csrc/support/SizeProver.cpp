#include "support/SizeProver.h"

#include "support/FloatSizes.h"

#include <algorithm>
#include <iterator>
#include <numeric>

using namespace torch_tile;
using namespace torch_tile::detail;

static constexpr int64_t negInf = std::numeric_limits<int64_t>::min();
static constexpr int64_t posInf = std::numeric_limits<int64_t>::max();

static int64_t saturate(__int128 value) {
  return value <= negInf ? negInf : value >= posInf ? posInf : static_cast<int64_t>(value);
}
static bool isInfinite(int64_t v) { return v == negInf || v == posInf; }
static int64_t negate(int64_t v) { return v == negInf ? posInf : v == posInf ? negInf : -v; }
static SizeRange negate(SizeRange r) { return {negate(r.max), negate(r.min)}; }

static int64_t multiplyLimits(int64_t a, int64_t b) {
  if (a == 0 || b == 0)
    return 0;
  if (isInfinite(a) || isInfinite(b))
    return (a < 0) == (b < 0) ? posInf : negInf;
  return saturate(static_cast<__int128>(a) * b);
}

/// A bound too large for the type stays a finite one: infinity is only ever on the open side.
static SizeRange keepOpenSides(SizeRange r) { return {std::min(r.min, posInf - 1), std::max(r.max, negInf + 1)}; }

SizeRange detail::addRanges(SizeRange a, SizeRange b) {
  return keepOpenSides({a.min == negInf || b.min == negInf ? negInf : saturate(static_cast<__int128>(a.min) + b.min),
                        a.max == posInf || b.max == posInf ? posInf : saturate(static_cast<__int128>(a.max) + b.max)});
}

SizeRange detail::multiplyRanges(SizeRange a, SizeRange b) {
  auto [low, high] = std::minmax({multiplyLimits(a.min, b.min), multiplyLimits(a.min, b.max),
                                  multiplyLimits(a.max, b.min), multiplyLimits(a.max, b.max)});
  return keepOpenSides({low, high});
}

static SizeRange powerOf(SizeRange r, int32_t power) {
  SizeRange result = r;
  for (int32_t i = 1; i < power; ++i)
    result = multiplyRanges(result, r);
  // Even powers are squares; the plain product forgets that its factors are equal.
  if (power % 2 == 0)
    result.min = std::max<int64_t>(result.min, 0);
  return result;
}

static int64_t floorDivLimits(int64_t a, int64_t positive) {
  if (isInfinite(a))
    return a;
  if (positive == posInf)
    return a < 0 ? -1 : 0;
  return *floorDivInt(a, positive);
}

SizeProver::SymbolFact SizeProver::factOf(const SizeAtom *symbol) const {
  const SizeFacts::Fact *fact = facts.find(symbol);
  return fact ? SymbolFact{fact->range, fact->extent, fact->hint} : SymbolFact();
}

static bool isZero(SizeRange r) { return r.min == 0 && r.max == 0; }

static SizeRange floorDivRanges(SizeRange a, SizeRange b) {
  if (isZero(b))
    return {};
  if (b.max <= 0)
    return floorDivRanges(negate(a), negate(b));
  if (b.min >= 0) {
    b.min = std::max<int64_t>(b.min, 1);
    return {floorDivLimits(a.min, a.min < 0 ? b.min : b.max), floorDivLimits(a.max, a.max >= 0 ? b.min : b.max)};
  }
  int64_t magnitude = std::max(negate(a.min), a.max);
  return {negate(magnitude), magnitude};
}

static SizeRange modRanges(SizeRange a, SizeRange b) {
  if (isZero(b))
    return {};
  if (b.max <= 0)
    return negate(modRanges(negate(a), negate(b)));
  int64_t below = b.max == posInf ? posInf : b.max - 1;
  if (b.min >= 0) {
    b.min = std::max<int64_t>(b.min, 1);
    if (a.min < 0)
      return {0, below};
    return {a.max < b.min ? a.min : 0, std::min(a.max, below)};
  }
  return {b.min == negInf ? negInf : b.min + 1, std::max<int64_t>(below, 0)};
}

static SizeRange truncDivRanges(SizeRange a, SizeRange b) {
  if (a.min >= 0 && b.min >= 0)
    return floorDivRanges(a, b);
  int64_t magnitude = std::max(negate(a.min), a.max);
  return {negate(magnitude), magnitude};
}

SizeRange SizeProver::atomInterval(const SizeAtom *atom) {
  if (!atom->isSymbol && atom->fn == sizeFn(FloatFn::ToInt)) {
    FloatRange r = floatInterval(atom->args[0]);
    int64_t rounding = atom->args[1].constant().value_or(0);
    return {roundToInt(r.min, rounding).value_or(negInf), roundToInt(r.max, rounding).value_or(posInf)};
  }
  if (atom->isSymbol) {
    const SizeFacts::Fact *fact = facts.find(atom);
    if (!fact)
      return {};
    SizeRange r = fact->range;
    if (fact->extent) {
      int64_t extent = facts.range(fact->extent).max;
      r.min = std::max<int64_t>(r.min, 0);
      // An empty loop runs for no value at all, so any range is true of its variable.
      r.max = std::max(r.min, std::min(r.max, extent == posInf ? posInf : extent - 1));
    }
    return r;
  }
  SizeRange r = facts.range(atom->args[0]);
  for (SizeExpr arg : atom->args.subspan(1)) {
    SizeRange next = facts.range(arg);
    switch (atom->fn) {
    case SizeFn::FloorDiv:
      return floorDivRanges(r, next);
    case SizeFn::Mod:
      return modRanges(r, next);
    case SizeFn::TruncDiv:
      return truncDivRanges(r, next);
    case SizeFn::Min:
      r = {std::min(r.min, next.min), std::min(r.max, next.max)};
      break;
    case SizeFn::Max:
      r = {std::max(r.min, next.min), std::max(r.max, next.max)};
      // The magnitude of an expression.
      if (facts.sizes().add(atom->args[0], arg).isConstant(0))
        r.min = std::max<int64_t>(r.min, 0);
      break;
    default:
      return {};
    }
  }
  return r;
}

SizeRange SizeProver::termInterval(const SizeTermNode &term) {
  SizeRange r{term.coefficient, term.coefficient};
  for (const SizeFactor &f : term.monomial->factors)
    r = multiplyRanges(r, powerOf(atomInterval(f.atom), f.power));
  return r;
}

SizeRange SizeProver::interval(SizeExpr e) {
  if (!e.isValid())
    return {};
  SizeRange sum{0, 0};
  for (const SizeTermNode &t : e.get()->terms)
    sum = addRanges(sum, termInterval(t));
  return sum;
}

uint64_t SizeProver::knownDivisor(const SizeAtom *atom) {
  if (atom->isSymbol) {
    const SizeFacts::Fact *fact = facts.find(atom);
    return fact ? static_cast<uint64_t>(fact->divisor) : 1;
  }
  auto it = divisors.find(atom);
  return it != divisors.end() ? it->second : divisors[atom] = divisorOfCall(atom);
}

uint64_t SizeProver::divisorOfCall(const SizeAtom *atom) {
  uint64_t first = knownDivisor(atom->args[0]);
  switch (atom->fn) {
  case SizeFn::FloorDiv:
  case SizeFn::TruncDiv: {
    auto c = atom->args[1].constant();
    return c && *c > 0 && first % static_cast<uint64_t>(*c) == 0 ? first / static_cast<uint64_t>(*c) : 1;
  }
  case SizeFn::Mod:
  case SizeFn::Min:
  case SizeFn::Max:
    for (SizeExpr arg : atom->args.subspan(1))
      first = std::gcd(first, knownDivisor(arg));
    return first;
  default:
    return 1;
  }
}

uint64_t SizeProver::knownDivisor(SizeExpr e) {
  if (!e.isValid())
    return 1;
  uint64_t sum = 0;
  for (const SizeTermNode &t : e.get()->terms) {
    uint64_t product =
        t.coefficient < 0 ? 0 - static_cast<uint64_t>(t.coefficient) : static_cast<uint64_t>(t.coefficient);
    for (const SizeFactor &f : t.monomial->factors)
      // Leaving out a factor that would overflow keeps a true, weaker divisor.
      if (uint64_t next; !__builtin_mul_overflow(product, knownDivisor(f.atom), &next))
        product = next;
    sum = std::gcd(sum, product);
  }
  return sum;
}

/// Puts every atom with a lower bound on a scale that starts at zero, so that products of differences keep their sign:
/// s0*s1 - s0 with s0, s1 >= 2 becomes t0*t1 + t0 + 2*t1 + 2.
int64_t SizeProver::shiftedLowerBound(SizeExpr e) {
  // A product of differences has twice as many terms for every factor.
  constexpr int32_t maxShiftedDegree = 10;
  if (e.get()->terms[0].monomial->degree > maxShiftedDegree)
    return negInf;
  std::unordered_map<const SizeAtom *, SizeRange> ranges;
  SizeExpr sum = context.constant(0);
  for (const SizeTermNode &t : e.get()->terms) {
    SizeExpr product = context.constant(t.coefficient);
    for (const SizeFactor &f : t.monomial->factors) {
      auto [it, isNew] = ranges.try_emplace(f.atom);
      if (isNew)
        it->second = atomInterval(f.atom);
      SizeExpr shifted = impl.fromAtom(f.atom);
      if (it->second.min != negInf && it->second.min != 0)
        shifted = context.add(shifted, context.constant(it->second.min));
      for (int32_t i = 0; i < f.power; ++i)
        product = context.mul(product, shifted);
    }
    sum = context.add(sum, product);
  }
  if (!sum.isValid())
    return negInf;
  SizeRange total{0, 0};
  for (const SizeTermNode &t : sum.get()->terms) {
    SizeRange r{t.coefficient, t.coefficient};
    for (const SizeFactor &f : t.monomial->factors) {
      SizeRange atom = ranges[f.atom];
      if (atom.min != negInf)
        atom = {0, atom.max == posInf ? posInf : saturate(static_cast<__int128>(atom.max) - atom.min)};
      r = multiplyRanges(r, powerOf(atom, f.power));
    }
    total = addRanges(total, r);
  }
  return total.min;
}

SizeExpr SizeProver::boundOverLoops(SizeExpr e, bool fromBelow) {
  // Each round replaces one loop variable everywhere outside calls; a variable inside a call is bounded with the call.
  for (size_t round = 0; round < 16 && spend(); ++round) {
    const SizeAtom *variable = nullptr;
    for (const SizeTermNode &t : e.get()->terms)
      for (const SizeFactor &f : t.monomial->factors) {
        const SizeFacts::Fact *fact = f.atom->isSymbol ? facts.find(f.atom) : nullptr;
        if (!f.atom->isSymbol || (fact && fact->extent && !fact->extent.isConstant()))
          variable = f.atom;
      }
    if (!variable)
      return e;
    std::vector<SizeTermNode> with, without;
    for (const SizeTermNode &t : e.get()->terms) {
      if (const SizeMonomial *rest = impl.divide(t.monomial, variable->monomial))
        with.push_back({t.coefficient, rest});
      else
        without.push_back(t);
    }
    SizeExpr coefficient = impl.fromUnsortedTerms(with);
    bool isNonNegative = isAtLeast(coefficient, 0);
    if (!isNonNegative && !isAtLeast(context.neg(coefficient), 0))
      return SizeExpr();
    std::vector<SizeExpr> bounds;
    collectBounds(variable, isNonNegative == fromBelow, bounds);
    if (bounds.empty())
      return SizeExpr();
    e = context.add(impl.fromUnsortedTerms(without), context.mul(coefficient, bounds[0]));
    if (!e.isValid())
      return SizeExpr();
  }
  return SizeExpr();
}

void SizeProver::collectBounds(const SizeAtom *atom, bool fromBelow, std::vector<SizeExpr> &bounds) {
  auto add = [&](SizeExpr e) {
    if (e && e.isValid())
      bounds.push_back(e);
  };
  SizeRange r = atomInterval(atom);
  int64_t limit = fromBelow ? r.min : r.max;
  bool hasSymbolic = false;
  if (atom->isSymbol) {
    const SizeFacts::Fact *fact = facts.find(atom);
    if (fact && fact->extent && !fromBelow) {
      hasSymbolic = true;
      add(context.sub(fact->extent, context.constant(1)));
    }
  } else if (atom->fn == SizeFn::Mod) {
    if (!fromBelow && isPositiveDivisor(atom->args[1])) {
      hasSymbolic = true;
      add(context.sub(atom->args[1], context.constant(1)));
      if (isAtLeast(atom->args[0], 0))
        add(atom->args[0]);
    }
  } else if (atom->fn == SizeFn::FloorDiv) {
    if (facts.nesting < 3 && isPositiveDivisor(atom->args[1]))
      if (SizeExpr dividend = boundOverLoops(atom->args[0], fromBelow)) {
        hasSymbolic = true;
        ++facts.nesting;
        SizeExpr quotient = facts.floorDiv(dividend, atom->args[1]);
        --facts.nesting;
        // The same atom again says nothing and would go round for ever.
        if (quotient != impl.fromAtom(atom))
          add(quotient);
      }
  } else if (atom->fn == (fromBelow ? SizeFn::Max : SizeFn::Min)) {
    hasSymbolic = true;
    for (SizeExpr arg : atom->args)
      add(arg);
  }
  if (!isInfinite(limit) && (!hasSymbolic || bounds.empty()))
    add(context.constant(limit));
}

int64_t SizeProver::lowerBound(SizeExpr e, int64_t enough) {
  if (!e.isValid())
    return negInf;
  int64_t best = interval(e).min;
  if (best >= enough || e.isConstant() || !spend())
    return best;
  best = std::max(best, shiftedLowerBound(e));
  return best >= enough ? best : std::max(best, eliminate(e, enough));
}

/// Replaces one atom that occurs linearly by a bound, calls and loop variables first: they are what symbolic bounds
/// speak about.
int64_t SizeProver::eliminate(SizeExpr e, int64_t enough) {
  int64_t best = negInf;
  std::vector<const SizeAtom *> atoms;
  for (const SizeTermNode &t : e.get()->terms)
    for (const SizeFactor &f : t.monomial->factors)
      if (std::find(atoms.begin(), atoms.end(), f.atom) == atoms.end())
        atoms.push_back(f.atom);
  // Not std::stable_sort: libstdc++ 12 takes its memory by a function that it calls deprecated.
  auto isCall = [](const SizeAtom *atom) { return !atom->isSymbol; };
  auto isLoopVariable = [&](const SizeAtom *atom) {
    const SizeFacts::Fact *fact = facts.find(atom);
    return fact && fact->extent;
  };
  std::vector<const SizeAtom *> ordered;
  std::copy_if(atoms.begin(), atoms.end(), std::back_inserter(ordered), isCall);
  for (bool wanted : {true, false})
    std::copy_if(atoms.begin(), atoms.end(), std::back_inserter(ordered),
                 [&](const SizeAtom *atom) { return !isCall(atom) && isLoopVariable(atom) == wanted; });
  for (const SizeAtom *atom : ordered) {
    if (best >= enough || !spend())
      break;
    std::vector<SizeTermNode> with, without;
    bool isLinear = true;
    for (const SizeTermNode &t : e.get()->terms) {
      if (const SizeMonomial *rest = impl.divide(t.monomial, atom->monomial)) {
        isLinear &= !impl.divide(rest, atom->monomial);
        with.push_back({t.coefficient, rest});
      } else {
        without.push_back(t);
      }
    }
    if (!isLinear)
      continue;
    SizeExpr coefficient = impl.fromUnsortedTerms(with), rest = impl.fromUnsortedTerms(without);
    bool isNonNegative = isAtLeast(coefficient, 0);
    if (!isNonNegative && !isAtLeast(context.neg(coefficient), 0))
      continue;
    auto tryBound = [&](SizeExpr scaled) {
      if (best < enough && scaled.isValid())
        best = std::max(best, lowerBound(context.add(rest, scaled), enough));
    };
    if (!atom->isSymbol && atom->fn == SizeFn::FloorDiv && isPositiveDivisor(atom->args[1]))
      // a - b + 1 <= b * (a // b) <= a for b > 0.
      if (SizeExpr multiple = impl.exactQuotient(coefficient, atom->args[1])) {
        SizeExpr bound = atom->args[0];
        if (isNonNegative)
          bound = context.add(context.sub(bound, atom->args[1]), context.constant(1));
        tryBound(context.mul(multiple, bound));
      }
    if (!atom->isSymbol && atom->fn == (isNonNegative ? SizeFn::Min : SizeFn::Max)) {
      // It equals one of its arguments, so what holds for each of them holds.
      int64_t worst = posInf;
      for (SizeExpr arg : atom->args)
        if (worst > best)
          worst = std::min(worst, lowerBound(context.add(rest, context.mul(coefficient, arg)), enough));
      best = std::max(best, worst);
    }
    std::vector<SizeExpr> bounds;
    collectBounds(atom, isNonNegative, bounds);
    for (SizeExpr bound : bounds)
      tryBound(context.mul(coefficient, bound));
  }
  return best;
}
