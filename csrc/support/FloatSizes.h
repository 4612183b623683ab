// Sizes that go through floating point, as int(s0 * 1.5) does: a float is an integer that holds the bits of a double.
#pragma once

#include "support/SizeExpr.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace torch_tile {

/// Functions of a size expression beyond those of integers. Operands and results are floats, but for IntTrueDiv, whose
/// operands are integers, and ToInt, whose second operand is a Rounding and whose result is an integer.
enum class FloatFn : uint8_t {
  IntTrueDiv = static_cast<uint8_t>(SizeFn::Max) + 1,
  Add,
  Mul,
  TrueDiv,
  Pow,
  Min,
  Max,
  ToInt
};

constexpr SizeFn sizeFn(FloatFn fn) { return static_cast<SizeFn>(fn); }
constexpr FloatFn floatFn(SizeFn fn) { return static_cast<FloatFn>(fn); }
inline bool isFloatFn(SizeFn fn) { return fn > SizeFn::Max; }
/// Value of a function for which `isFloatFn` holds; nothing where Python raises or no int64 holds the result.
std::optional<int64_t> applyFloatFn(FloatFn fn, int64_t a, int64_t b);

enum class Rounding : int64_t { Truncate, Floor, Ceil, NearestEven };

inline double floatOfBits(int64_t bits) { return std::bit_cast<double>(bits); }

/// Minus zero becomes zero: its bits are the one integer without a positive counterpart.
inline int64_t bitsOfFloat(double value) { return value == 0 ? 0 : std::bit_cast<int64_t>(value); }

/// Nothing for what no int64 holds.
inline std::optional<int64_t> roundToInt(double value, int64_t rounding) {
  switch (static_cast<Rounding>(rounding)) {
  case Rounding::Truncate:
    value = std::trunc(value);
    break;
  case Rounding::Floor:
    value = std::floor(value);
    break;
  case Rounding::Ceil:
    value = std::ceil(value);
    break;
  case Rounding::NearestEven:
    value = value - std::remainder(value, 1.0);
    break;
  }
  constexpr double limit = 9223372036854775808.0;
  if (!(value >= -limit && value < limit))
    return std::nullopt;
  return static_cast<int64_t>(value);
}

} // namespace torch_tile
