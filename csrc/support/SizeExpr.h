// Symbolic sizes and index expressions: interned polynomials with checked int64 coefficients over atoms.
//
// An atom is a symbol (s0, u1, i0, r0, x0) or an opaque function of expressions (floor division, modulus, min, max,
// ...). Two expressions of one SizeContext are the same polynomial exactly if they are the same pointer. Building folds
// what is always true; what needs facts about symbols is in SizeFacts.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace torch_tile {

namespace detail {
struct SizeNode;
struct SizeAtom;
} // namespace detail

class SizeContext;

enum class SizeFn : uint8_t { FloorDiv, Mod, PythonMod, CleanDiv, TruncDiv, CeilDiv, Min, Max };

/// A handle, cheap to copy and compare. Default-constructed handles are null and only good for assignment.
class SizeExpr {
public:
  SizeExpr() = default;
  explicit SizeExpr(const detail::SizeNode *node) : node(node) {}

  bool operator==(const SizeExpr &) const = default;
  explicit operator bool() const { return node != nullptr; }
  const void *opaque() const { return node; }
  static SizeExpr fromOpaque(const void *p) { return SizeExpr(static_cast<const detail::SizeNode *>(p)); }
  const detail::SizeNode *get() const { return node; }

  /// False once int64 arithmetic overflowed while building: such an expression equals nothing, not even itself
  /// provably.
  bool isValid() const;
  bool isConstant() const;
  bool isConstant(int64_t value) const;
  std::optional<int64_t> constant() const;
  /// The name if this is exactly one symbol.
  std::optional<std::string_view> symbol() const;
  /// Names of all symbols below, sorted, each once.
  std::vector<std::string_view> symbols() const;
  bool contains(std::string_view symbol) const;
  /// Python syntax that SizeContext::parse reads back to the same expression.
  std::string str() const;
  SizeContext &context() const;

private:
  const detail::SizeNode *node = nullptr;
};

/// One monomial of a polynomial, opened up: coefficient times the product of the atoms' powers.
struct SizeTerm {
  int64_t coefficient;
  std::vector<std::pair<SizeExpr, int>> factors; // atom as an expression of its own, power >= 1
};

/// An opaque function atom, opened up.
struct SizeCall {
  SizeFn fn;
  std::vector<SizeExpr> args;
};

/// Owns and uniques expressions. Not thread-safe: one context belongs to one compile.
class SizeContext {
public:
  SizeContext();
  ~SizeContext();
  SizeContext(const SizeContext &) = delete;
  SizeContext &operator=(const SizeContext &) = delete;

  SizeExpr constant(int64_t value);
  SizeExpr symbol(std::string_view name);

  SizeExpr add(SizeExpr a, SizeExpr b);
  SizeExpr sub(SizeExpr a, SizeExpr b);
  SizeExpr mul(SizeExpr a, SizeExpr b);
  SizeExpr neg(SizeExpr a);
  /// Rounds to minus infinity, as Python's //. A constant zero divisor gives an invalid expression.
  SizeExpr floorDiv(SizeExpr a, SizeExpr b);
  /// a - b * floorDiv(a, b).
  SizeExpr mod(SizeExpr a, SizeExpr b);
  SizeExpr ceilDiv(SizeExpr a, SizeExpr b);
  SizeExpr min(SizeExpr a, SizeExpr b);
  SizeExpr max(SizeExpr a, SizeExpr b);
  SizeExpr call(SizeFn fn, const std::vector<SizeExpr> &args);

  /// Reads Python's syntax as torch prints it: + - * // % ** Min Max Mod PythonMod FloorDiv CleanDiv CeilDiv TruncToInt
  /// of a division, parentheses. On failure returns null and says why in `error`.
  SizeExpr parse(std::string_view text, std::string *error = nullptr);

  /// Replaces symbols, all at once; names the function answers with null stay.
  SizeExpr substitute(SizeExpr e, const std::function<SizeExpr(std::string_view)> &replacement);

  /// Opened-up views of an expression, in canonical order.
  static std::vector<SizeTerm> terms(SizeExpr e);
  /// Set if `e` is exactly one function atom.
  static std::optional<SizeCall> asCall(SizeExpr e);

  /// Value under an assignment of symbols; nothing if a symbol is unknown, on overflow or on division by zero.
  static std::optional<int64_t> evaluate(SizeExpr e,
                                         const std::function<std::optional<int64_t>(std::string_view)> &value);

  struct Impl;
  Impl &impl() { return *pimpl; }

private:
  std::unique_ptr<Impl> pimpl;
};

} // namespace torch_tile

template <> struct std::hash<torch_tile::SizeExpr> {
  size_t operator()(const torch_tile::SizeExpr &e) const noexcept { return std::hash<const void *>()(e.opaque()); }
};
