// Facts about symbols and three-valued questions about expressions.
#include "support/SizeFacts.h"
#include "support/FloatSizes.h"

#include "support/SizeProver.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace torch_tile;
using namespace torch_tile::detail;

SizeFacts::Fact &SizeFacts::change(std::string_view symbol) {
  ranges.clear();
  simplified.clear();
  return facts[context.impl().symbolAtom(symbol)];
}

const SizeFacts::Fact *SizeFacts::find(const SizeAtom *symbol) const {
  auto it = facts.find(symbol);
  return it == facts.end() ? nullptr : &it->second;
}

void SizeFacts::setRange(std::string_view symbol, int64_t min, int64_t max) { change(symbol).range = {min, max}; }

void SizeFacts::setDivisor(std::string_view symbol, int64_t divisor) {
  assert(divisor > 0 && "a known divisor is positive");
  change(symbol).divisor = divisor;
}

void SizeFacts::setExtent(std::string_view symbol, SizeExpr extent) {
  assert(extent && !extent.contains(symbol) && "an extent does not depend on its own variable");
  change(symbol).extent = extent.isValid() ? extent : SizeExpr();
}

void SizeFacts::setHint(std::string_view symbol, int64_t hint) { change(symbol).hint = hint; }

bool SizeFacts::knows(std::string_view symbol) const { return find(context.impl().symbolAtom(symbol)) != nullptr; }

void SizeFacts::setNumber(std::string_view symbol) { change(symbol).isNumber = true; }

bool SizeFacts::isNumber(SizeExpr symbol) const {
  auto name = symbol.symbol();
  const Fact *fact = name ? find(context.impl().symbolAtom(*name)) : nullptr;
  return fact && fact->isNumber;
}

bool SizeFacts::isExtent(SizeExpr e) const {
  return std::any_of(facts.begin(), facts.end(), [&](const auto &fact) { return fact.second.extent == e; });
}

void SizeFacts::erase(std::string_view symbol) {
  change(symbol);
  facts.erase(context.impl().symbolAtom(symbol));
}

SizeRange SizeFacts::range(SizeExpr e) const {
  if (!e.isValid())
    return {};
  if (auto value = e.constant())
    return {*value, *value};
  auto it = ranges.find(e);
  if (it != ranges.end())
    return it->second;
  SizeRange r = SizeProver(*this).interval(e);
  // Interval arithmetic is exact where every atom occurs once and has constant bounds; elsewhere the prover may know
  // more.
  bool isSingleSymbol = e.symbol().has_value();
  if (!isSingleSymbol && r.min != r.max) {
    SizeRange unbounded;
    r.min = std::max(r.min, SizeProver(*this).lowerBound(e, unbounded.max));
    int64_t negated = SizeProver(*this).lowerBound(context.neg(e), unbounded.max);
    if (negated != unbounded.min)
      r.max = std::min(r.max, -negated);
  }
  // Contradictory facts hold for no assignment: keep the range well formed.
  r.max = std::max(r.min, r.max);
  ranges.emplace(e, r);
  return r;
}

Proof SizeFacts::lessEqual(SizeExpr a, SizeExpr b) const {
  if (!a.isValid() || !b.isValid())
    return Proof::Unknown;
  SizeExpr difference = context.sub(b, a);
  if (auto value = difference.constant())
    return *value >= 0 ? Proof::Yes : Proof::No;
  if (SizeProver(*this).isAtLeast(difference, 0))
    return Proof::Yes;
  if (SizeProver(*this).isAtLeast(context.neg(difference), 1))
    return Proof::No;
  return Proof::Unknown;
}

Proof SizeFacts::less(SizeExpr a, SizeExpr b) const {
  Proof reverse = lessEqual(b, a);
  return reverse == Proof::Yes ? Proof::No : reverse == Proof::No ? Proof::Yes : Proof::Unknown;
}

Proof SizeFacts::equal(SizeExpr a, SizeExpr b) const {
  if (!a.isValid() || !b.isValid())
    return Proof::Unknown;
  if (a == b)
    return Proof::Yes;
  SizeExpr difference = simplify(context.sub(a, b));
  if (auto value = difference.constant())
    return *value == 0 ? Proof::Yes : Proof::No;
  if (!difference.isValid())
    return Proof::Unknown;
  if (SizeProver(*this).isAtLeast(difference, 1) || SizeProver(*this).isAtLeast(context.neg(difference), 1))
    return Proof::No;
  // 2*s0 == 1 has no solution: the known divisor of the symbolic part does not divide the rest.
  auto terms = difference.get()->terms;
  if (terms.back().monomial->degree == 0) {
    SizeContext::Impl &impl = context.impl();
    uint64_t divisor = SizeProver(*this).knownDivisor(impl.fromTerms(terms.first(terms.size() - 1)));
    int64_t rest = terms.back().coefficient;
    if (divisor > static_cast<uint64_t>(INT64_MAX) || (divisor > 1 && rest % static_cast<int64_t>(divisor) != 0))
      return Proof::No;
  }
  return Proof::Unknown;
}

Proof SizeFacts::divides(SizeExpr divisor, SizeExpr e) const {
  if (!divisor.isValid() || !e.isValid() || divisor.isConstant(0))
    return Proof::Unknown;
  SizeContext::Impl &impl = context.impl();
  if (impl.exactQuotient(e, divisor))
    return Proof::Yes;
  if (auto c = divisor.constant()) {
    uint64_t magnitude = *c < 0 ? 0 - static_cast<uint64_t>(*c) : static_cast<uint64_t>(*c);
    if (SizeProver(*this).knownDivisor(e) % magnitude == 0)
      return Proof::Yes;
    auto terms = e.get()->terms;
    uint64_t constant = 0;
    if (terms.back().monomial->degree == 0) {
      constant = terms.back().coefficient < 0 ? 0 - static_cast<uint64_t>(terms.back().coefficient)
                                              : static_cast<uint64_t>(terms.back().coefficient);
      terms = terms.first(terms.size() - 1);
    }
    uint64_t common = std::gcd(SizeProver(*this).knownDivisor(impl.fromTerms(terms)), magnitude);
    if (constant % common != 0)
      return Proof::No;
  }
  if (auto rest = mod(simplify(e), simplify(divisor)).constant())
    return *rest == 0 ? Proof::Yes : Proof::No;
  return Proof::Unknown;
}

int64_t SizeFacts::estimate(SizeExpr e, int64_t fallback) const { return SizeEstimator(*this, fallback).of(e); }

int64_t SizeEstimator::of(SizeExpr e) {
  if (!e.isValid())
    return fallback;
  auto point = [](int64_t value) { return SizeRange{value, value}; };
  SizeRange sum = point(0);
  for (const SizeTermNode &t : e.get()->terms) {
    SizeRange product = point(t.coefficient);
    for (const SizeFactor &f : t.monomial->factors)
      for (int32_t i = 0; i < f.power; ++i)
        product = multiplyRanges(product, point(ofAtom(f.atom)));
    sum = addRanges(sum, product);
  }
  return sum.max;
}

int64_t SizeEstimator::ofAtom(const SizeAtom *atom) {
  auto it = known.find(atom);
  return it != known.end() ? it->second : known[atom] = atom->isSymbol ? ofSymbol(atom) : ofCall(atom);
}

int64_t SizeEstimator::ofSymbol(const SizeAtom *symbol) {
  SizeProver::SymbolFact fact = SizeProver(facts).factOf(symbol);
  if (fact.hint)
    return *fact.hint;
  int64_t value = fact.extent ? of(fact.extent) : fallback;
  return std::max(fact.range.min, std::min(fact.range.max, value));
}

int64_t SizeEstimator::ofCall(const SizeAtom *atom) {
  int64_t value = of(atom->args[0]);
  for (SizeExpr arg : atom->args.subspan(1)) {
    int64_t next = of(arg);
    switch (atom->fn) {
    case SizeFn::FloorDiv:
      return floorDivInt(value, next).value_or(value);
    case SizeFn::TruncDiv:
      return truncDivInt(value, next).value_or(value);
    case SizeFn::Mod:
      return floorModInt(value, next).value_or(0);
    case SizeFn::Max:
      value = std::max(value, next);
      break;
    default:
      if (isFloatFn(atom->fn))
        return applyFloatFn(floatFn(atom->fn), value, next).value_or(fallback);
      value = std::min(value, next);
    }
  }
  return value;
}
