// Ranges of the floats that sizes are computed from.
#include "support/FloatSizes.h"
#include "support/SizeProver.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace torch_tile;
using namespace torch_tile::detail;

static bool isInfinite(int64_t v) {
  return v == std::numeric_limits<int64_t>::min() || v == std::numeric_limits<int64_t>::max();
}

FloatRange SizeProver::floatInterval(SizeExpr e) {
  auto it = floatRanges.find(e);
  return it != floatRanges.end() ? it->second : floatRanges[e] = computeFloatInterval(e);
}

/// Bounds of a float of bits `e`, through the monotone functions; roundings keep their order.
FloatRange SizeProver::computeFloatInterval(SizeExpr e) {
  if (auto bits = e.constant())
    return {floatOfBits(*bits), floatOfBits(*bits)};
  const SizeAtom *atom = asAtom(e);
  if (!atom || atom->isSymbol || !isFloatFn(atom->fn))
    return {};
  if (atom->fn == sizeFn(FloatFn::IntTrueDiv)) {
    SizeRange a = facts.range(atom->args[0]);
    auto b = atom->args[1].constant();
    if (!b || *b <= 0)
      return {};
    auto divide = [&](int64_t limit, double open) {
      return isInfinite(limit) ? open : static_cast<double>(limit) / static_cast<double>(*b);
    };
    return {divide(a.min, -std::numeric_limits<double>::infinity()),
            divide(a.max, std::numeric_limits<double>::infinity())};
  }
  FloatRange a = floatInterval(atom->args[0]), b = floatInterval(atom->args[1]);
  auto ofCorners = [&](auto fn) {
    auto [low, high] = std::minmax({fn(a.min, b.min), fn(a.min, b.max), fn(a.max, b.min), fn(a.max, b.max)});
    return low <= high ? FloatRange{low, high} : FloatRange();
  };
  bool areFinite = std::isfinite(a.min) && std::isfinite(a.max) && std::isfinite(b.min) && std::isfinite(b.max);
  bool areNonNegative = a.min >= 0 && b.min >= 0;
  switch (floatFn(atom->fn)) {
  case FloatFn::Add:
    return {a.min + b.min, a.max + b.max};
  case FloatFn::Mul:
    if (areFinite)
      return ofCorners([](double x, double y) { return x * y; });
    return areNonNegative ? FloatRange{a.min * b.min, std::numeric_limits<double>::infinity()} : FloatRange();
  case FloatFn::TrueDiv:
    if (areFinite && b.min > 0)
      return ofCorners([](double x, double y) { return x / y; });
    return areNonNegative ? FloatRange{0, std::numeric_limits<double>::infinity()} : FloatRange();
  case FloatFn::Pow:
    return a.min >= 0 ? FloatRange{0, std::numeric_limits<double>::infinity()} : FloatRange();
  case FloatFn::Unary: {
    auto [low, high] = rangeOfUnary(static_cast<UnaryFloat>(atom->args[1].constant().value_or(-1)));
    return {low, high};
  }
  case FloatFn::Min:
    return {std::min(a.min, b.min), std::min(a.max, b.max)};
  case FloatFn::Max:
    return {std::max(a.min, b.min), std::max(a.max, b.max)};
  default:
    return {};
  }
}
