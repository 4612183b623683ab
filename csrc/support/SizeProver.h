// Bounds of expressions under facts. Only the files that implement SizeFacts include this.
#pragma once

#include "support/SizeFacts.h"
#include "support/SizeNodes.h"

#include <limits>

namespace torch_tile::detail {

/// Of a float; infinities where nothing is known.
struct FloatRange {
  double min = -std::numeric_limits<double>::infinity(), max = std::numeric_limits<double>::infinity();
};

/// Works on polynomials of mathematical integers: interval arithmetic first, then elimination of atoms by their
/// (symbolic) bounds. One prover answers one question: its budget bounds the work.
class SizeProver {
public:
  explicit SizeProver(const SizeFacts &facts) : facts(facts), context(facts.context), impl(facts.context.impl()) {}

  /// By interval arithmetic alone.
  SizeRange interval(SizeExpr e);
  /// The best lower bound found, INT64_MIN if none; stops looking once it reaches `enough`.
  int64_t lowerBound(SizeExpr e, int64_t enough);
  bool isAtLeast(SizeExpr e, int64_t bound) { return e.isValid() && lowerBound(e, bound) >= bound; }
  /// A divisor is never zero, so a non-negative one is positive.
  bool isPositiveDivisor(SizeExpr e) { return isAtLeast(e, 0); }
  /// A number that divides `e` for all assignments; 0 if `e` is 0.
  uint64_t knownDivisor(SizeExpr e);

  /// What the facts say of one symbol.
  struct SymbolFact {
    SizeRange range;
    SizeExpr extent; // null if there is none
    std::optional<int64_t> hint;
  };
  SymbolFact factOf(const SizeAtom *symbol) const;

private:
  SizeRange atomInterval(const SizeAtom *atom);
  FloatRange floatInterval(SizeExpr e);
  FloatRange computeFloatInterval(SizeExpr e);
  SizeRange termInterval(const SizeTermNode &term);
  uint64_t knownDivisor(const SizeAtom *atom);
  uint64_t divisorOfCall(const SizeAtom *atom);
  int64_t eliminate(SizeExpr e, int64_t enough);
  int64_t shiftedLowerBound(SizeExpr e);
  /// Expressions that bound `atom` from below (or above), each by itself.
  void collectBounds(const SizeAtom *atom, bool fromBelow, std::vector<SizeExpr> &bounds);
  /// `e` with loop variables replaced by bounds: an expression that is not above (below) `e`, or null.
  SizeExpr boundOverLoops(SizeExpr e, bool fromBelow);
  bool spend() { return budget != 0 && --budget != 0; }

  const SizeFacts &facts;
  SizeContext &context;
  SizeContext::Impl &impl;
  std::unordered_map<SizeExpr, FloatRange> floatRanges;
  std::unordered_map<const SizeAtom *, uint64_t> divisors;
  unsigned budget = 96;
};

/// One estimate under the hints: every atom has one value, however often it occurs.
class SizeEstimator {
public:
  SizeEstimator(const SizeFacts &facts, int64_t fallback) : facts(facts), fallback(fallback) {}
  int64_t of(SizeExpr e);

private:
  int64_t ofAtom(const SizeAtom *atom);
  int64_t ofSymbol(const SizeAtom *symbol);
  int64_t ofCall(const SizeAtom *atom);

  const SizeFacts &facts;
  int64_t fallback;
  std::unordered_map<const SizeAtom *, int64_t> known;
};

/// Interval arithmetic whose limits stand for infinity.
SizeRange addRanges(SizeRange a, SizeRange b);
SizeRange multiplyRanges(SizeRange a, SizeRange b);

} // namespace torch_tile::detail
