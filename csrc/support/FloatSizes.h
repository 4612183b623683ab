// Sizes that go through floating point, as int(s0 * 1.5) does: a float is an integer that holds the bits of a double.
#pragma once

#include "support/SizeExpr.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace torch_tile {

/// Functions of a size expression beyond those of integers. Operands and results are floats, but for IntTrueDiv, whose
/// operands are integers, ToInt, whose second operand is a Rounding and whose result is an integer, Unary, whose second
/// operand is a UnaryFloat, and RoundDecimal, whose second operand is a number of digits.
enum class FloatFn : uint8_t {
  IntTrueDiv = static_cast<uint8_t>(SizeFn::Max) + 1,
  Add,
  Mul,
  TrueDiv,
  Pow,
  Min,
  Max,
  ToInt,
  Unary,
  RoundDecimal
};

/// A function of one float: its position in the table of FloatSizes.cpp.
enum class UnaryFloat : int64_t {};

constexpr SizeFn sizeFn(FloatFn fn) { return static_cast<SizeFn>(fn); }
constexpr FloatFn floatFn(SizeFn fn) { return static_cast<FloatFn>(fn); }
inline bool isFloatFn(SizeFn fn) { return fn > SizeFn::Max; }
/// Digits of the least power of ten that divides exactly.
constexpr int64_t leastDecimalDigits = -22;
/// Of the name that torch prints.
std::optional<UnaryFloat> unaryFloatOf(std::string_view name);
/// Bounds of its results.
std::pair<double, double> rangeOfUnary(UnaryFloat function);
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
