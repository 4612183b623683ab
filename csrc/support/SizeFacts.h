// What is known about symbols, and what follows for expressions: ranges, divisibility, three-valued comparisons,
// simplification.
#pragma once

#include "support/SizeExpr.h"

#include <limits>
#include <unordered_map>

namespace torch_tile {

namespace detail {
class SizeProver;
class SizeSimplifier;
} // namespace detail

enum class Proof : uint8_t { No, Unknown, Yes };

struct SizeRange {
  int64_t min = std::numeric_limits<int64_t>::min(); // the limits stand for "unbounded"
  int64_t max = std::numeric_limits<int64_t>::max();
};

class SizeFacts {
public:
  explicit SizeFacts(SizeContext &context) : context(context) {}

  void setRange(std::string_view symbol, int64_t min, int64_t max);
  void setDivisor(std::string_view symbol, int64_t divisor);
  /// 0 <= symbol < extent, where extent may be symbolic: what holds for a loop variable.
  void setExtent(std::string_view symbol, SizeExpr extent);
  /// A value seen, for cost estimates only: no proof uses it.
  void setHint(std::string_view symbol, int64_t hint);
  /// It is no size: what a process can address does not bound it.
  void setNumber(std::string_view symbol);
  bool knows(std::string_view symbol) const;
  bool isNumber(SizeExpr symbol) const;
  /// Whether it is the extent of a loop variable.
  bool isExtent(SizeExpr e) const;
  void erase(std::string_view symbol);

  SizeRange range(SizeExpr e) const;
  /// Proofs hold for every assignment within the facts.
  Proof equal(SizeExpr a, SizeExpr b) const;
  Proof lessEqual(SizeExpr a, SizeExpr b) const;
  Proof less(SizeExpr a, SizeExpr b) const;
  Proof divides(SizeExpr divisor, SizeExpr e) const;

  /// The same value under the facts, simpler: (i0*256 + i1)//256 -> i0 and (i0*s1 + i1) % s1 -> i1 when i1 < 256, i1 <
  /// s1.
  SizeExpr simplify(SizeExpr e) const;
  SizeExpr floorDiv(SizeExpr a, SizeExpr b) const;
  SizeExpr mod(SizeExpr a, SizeExpr b) const;

  /// The value under the hints; `fallback` for symbols without one. Saturates.
  int64_t estimate(SizeExpr e, int64_t fallback = 64) const;

  SizeContext &sizes() const { return context; }

private:
  struct Fact {
    SizeRange range;
    int64_t divisor = 1;
    SizeExpr extent;
    std::optional<int64_t> hint;
    bool isNumber = false;
  };
  friend class detail::SizeProver;
  friend class detail::SizeSimplifier;
  Fact &change(std::string_view symbol);
  const Fact *find(const detail::SizeAtom *symbol) const;

  SizeContext &context;
  std::unordered_map<const detail::SizeAtom *, Fact> facts;
  // Answers so far; any change of a fact forgets them.
  mutable std::unordered_map<SizeExpr, SizeRange> ranges;
  mutable std::unordered_map<SizeExpr, SizeExpr> simplified;
  mutable unsigned nesting = 0; // of simplifications that proofs ask for
};

} // namespace torch_tile
