// The nodes behind SizeExpr handles: terms over interned monomials over interned atoms. Only the files that implement
// sizes include this.
#pragma once

#include "support/SizeExpr.h"

#include <memory_resource>
#include <span>
#include <unordered_map>
#include <unordered_set>

namespace torch_tile::detail {

/// Symbols below a node, sorted by name, each once: asked for at every step of fusion, so kept and not collected.
using SizeSymbols = std::span<const SizeAtom *const>;

struct SizeFactor {
  const SizeAtom *atom;
  int32_t power;
  bool operator==(const SizeFactor &) const = default;
};

/// A product of atoms' powers, sorted by atom; the empty product is 1.
struct SizeMonomial {
  std::span<const SizeFactor> factors;
  int32_t degree;
  uint32_t treeSize;
  SizeSymbols symbols;
};

struct SizeTermNode {
  int64_t coefficient;
  const SizeMonomial *monomial;
  bool operator==(const SizeTermNode &) const = default;
};

/// A polynomial: terms with non-zero coefficients, sorted by monomial, leading one first; zero has no terms.
struct SizeNode {
  SizeContext *context;
  std::span<const SizeTermNode> terms;
  bool valid;
  uint32_t treeSize;
  SizeSymbols symbols;
};

struct SizeAtom {
  bool isSymbol;
  SizeFn fn;                      // calls
  std::span<const SizeExpr> args; // calls
  std::string_view name;          // symbols
  std::string_view prefix;        // symbols: the name without trailing digits
  uint64_t number;                // symbols: the trailing digits
  const SizeMonomial *monomial;   // the atom as a monomial
  const SizeNode *node;           // the atom as an expression
  uint32_t treeSize;
  SizeSymbols symbols;
};

/// Orders by name and structure, never by address or age, so that text made from expressions is reproducible. Symbols
/// come before calls; i2 comes before i10.
int compareAtoms(const SizeAtom *a, const SizeAtom *b);
int compareExprs(SizeExpr a, SizeExpr b);
/// Graded lexicographic: negative if `a` leads. Multiplying both by a monomial keeps the order, which polynomial
/// division relies on.
int compareMonomials(const SizeMonomial *a, const SizeMonomial *b);

/// The atom if `e` is exactly one atom, else null.
const SizeAtom *asAtom(SizeExpr e);

/// Floor division and modulus of int64; nothing for a zero divisor or on overflow.
std::optional<int64_t> floorDivInt(int64_t a, int64_t b);
std::optional<int64_t> floorModInt(int64_t a, int64_t b);
std::optional<int64_t> truncDivInt(int64_t a, int64_t b);

/// A polynomial split by a divisor: e == quotient * divisor + remainder.
struct SizeSplit {
  SizeExpr quotient;
  SizeExpr remainder;
};

} // namespace torch_tile::detail

namespace torch_tile {

struct SizeContext::Impl {
  explicit Impl(SizeContext &owner);

  SizeExpr fromTerms(std::span<const detail::SizeTermNode> sortedTerms);
  /// Sorts and merges; invalid on overflow. Clobbers `terms`.
  SizeExpr fromUnsortedTerms(std::vector<detail::SizeTermNode> &terms);
  SizeExpr fromTerm(int64_t coefficient, const detail::SizeMonomial *monomial);
  SizeExpr fromAtom(const detail::SizeAtom *atom) { return SizeExpr(atom->node); }
  const detail::SizeAtom *symbolAtom(std::string_view name);
  const detail::SizeAtom *callAtom(SizeFn fn, std::span<const SizeExpr> args);
  SizeExpr callExpr(SizeFn fn, std::initializer_list<SizeExpr> args) {
    return fromAtom(callAtom(fn, std::span<const SizeExpr>(args.begin(), args.size())));
  }
  const detail::SizeMonomial *internMonomial(std::span<const detail::SizeFactor> sortedFactors);
  /// Null if the degree gets out of hand.
  const detail::SizeMonomial *multiply(const detail::SizeMonomial *a, const detail::SizeMonomial *b);
  /// Null if `b` does not divide `a`.
  const detail::SizeMonomial *divide(const detail::SizeMonomial *a, const detail::SizeMonomial *b);
  const detail::SizeMonomial *gcd(const detail::SizeMonomial *a, const detail::SizeMonomial *b);
  SizeExpr scale(SizeExpr e, int64_t coefficient, const detail::SizeMonomial *monomial);
  /// Null if `divisor` (one term) does not divide every term of `e`.
  SizeExpr divideByTerm(SizeExpr e, detail::SizeTermNode divisor);
  /// Moves what polynomial division by `divisor` takes out to the quotient. With a constant divisor the constant
  /// remainder lies in [0, divisor).
  detail::SizeSplit split(SizeExpr e, SizeExpr divisor);
  /// Null if `divisor` does not divide `e` as polynomials.
  SizeExpr exactQuotient(SizeExpr e, SizeExpr divisor);
  /// The greatest monomial with positive coefficient that divides every term of both.
  detail::SizeTermNode commonFactor(SizeExpr a, SizeExpr b);
  SizeExpr minOrMax(SizeFn fn, std::span<const SizeExpr> args);
  SizeExpr floatCall(SizeFn fn, SizeExpr a, SizeExpr b);

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::span<const detail::SizeFactor> factors) const;
    size_t operator()(std::span<const detail::SizeTermNode> terms) const;
    size_t operator()(const detail::SizeMonomial *m) const { return (*this)(m->factors); }
    size_t operator()(const detail::SizeNode *n) const { return (*this)(n->terms); }
  };
  struct Equal {
    using is_transparent = void;
    template <typename T> static auto key(std::span<T> s) { return s; }
    static auto key(const detail::SizeMonomial *m) { return m->factors; }
    static auto key(const detail::SizeNode *n) { return n->terms; }
    bool operator()(const auto &a, const auto &b) const {
      auto x = key(a), y = key(b);
      return std::equal(x.begin(), x.end(), y.begin(), y.end());
    }
  };
  struct CallKey {
    SizeFn fn;
    std::span<const SizeExpr> args;
  };
  struct CallHash {
    using is_transparent = void;
    size_t operator()(const CallKey &key) const;
    size_t operator()(const detail::SizeAtom *atom) const { return (*this)(CallKey{atom->fn, atom->args}); }
  };
  struct CallEqual {
    using is_transparent = void;
    static CallKey key(const CallKey &k) { return k; }
    static CallKey key(const detail::SizeAtom *a) { return {a->fn, a->args}; }
    bool operator()(const auto &a, const auto &b) const {
      CallKey x = key(a), y = key(b);
      return x.fn == y.fn && std::equal(x.args.begin(), x.args.end(), y.args.begin(), y.args.end());
    }
  };

  SizeContext &owner;
  std::pmr::monotonic_buffer_resource arena{16 * 1024};
  std::unordered_set<const detail::SizeNode *, Hash, Equal> nodes;
  std::unordered_set<const detail::SizeMonomial *, Hash, Equal> monomials;
  std::unordered_set<const detail::SizeAtom *, CallHash, CallEqual> calls;
  std::unordered_map<std::string_view, const detail::SizeAtom *> symbols;
  const detail::SizeMonomial *unit;
  const detail::SizeNode *invalid;

private:
  template <typename T> std::span<const T> copy(std::span<const T> values);
  template <typename T> T *create(T value);
  const detail::SizeAtom *finishAtom(detail::SizeAtom atom);
  detail::SizeSymbols unite(detail::SizeSymbols a, detail::SizeSymbols b);
};

} // namespace torch_tile
