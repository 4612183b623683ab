#include "support/FloatSizes.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

using namespace torch_tile;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

using Function = double (*)(double);
struct NamedFunction {
  std::string_view name;
  Function function;
  double min = -infinity, max = infinity;
};

/// By UnaryFloat, under the names that torch prints.
constexpr std::array<NamedFunction, 15> functions{{
    {"OpaqueUnaryFn_sqrt", std::sqrt, 0},
    {"OpaqueUnaryFn_cos", std::cos, -1, 1},
    {"OpaqueUnaryFn_cosh", std::cosh, 1},
    {"OpaqueUnaryFn_sin", std::sin, -1, 1},
    {"OpaqueUnaryFn_sinh", std::sinh},
    {"OpaqueUnaryFn_tan", std::tan},
    {"OpaqueUnaryFn_tanh", std::tanh, -1, 1},
    {"OpaqueUnaryFn_asin", std::asin},
    {"OpaqueUnaryFn_acos", std::acos, 0},
    {"OpaqueUnaryFn_atan", std::atan},
    {"OpaqueUnaryFn_exp", std::exp, 0},
    {"OpaqueUnaryFn_log", std::log},
    {"OpaqueUnaryFn_asinh", std::asinh},
    {"OpaqueUnaryFn_log2", std::log2},
    {"TruncToFloat", std::trunc},
}};

/// Nothing where Python raises ValueError or OverflowError.
std::optional<double> applyUnary(UnaryFloat function, double x) {
  auto position = static_cast<uint64_t>(function);
  if (position >= functions.size())
    return std::nullopt;
  double result = functions[position].function(x);
  bool isRaised = std::isnan(result) ? !std::isnan(x) : std::isinf(result) && std::isfinite(x);
  return isRaised ? std::nullopt : std::optional(result);
}

/// Python's round(x, digits): the decimal nearest to the exact value, of two the even one.
std::optional<double> roundDecimal(double x, int64_t digits) {
  constexpr int64_t most = 323; // digits behind the point of the least double
  if (!std::isfinite(x) || digits > most)
    return x;
  if (digits < leastDecimalDigits)
    return std::nullopt;
  if (digits < 0)
    return x - std::remainder(x, std::pow(10.0, static_cast<double>(-digits)));
  std::array<char, 700> text{};
  std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits), x);
  return std::strtod(text.data(), nullptr);
}

std::optional<int64_t> bitsOf(std::optional<double> x) { return x ? std::optional(bitsOfFloat(*x)) : std::nullopt; }

} // namespace

std::optional<UnaryFloat> torch_tile::unaryFloatOf(std::string_view name) {
  auto it = std::find_if(functions.begin(), functions.end(), [&](const NamedFunction &f) { return f.name == name; });
  if (it == functions.end())
    return std::nullopt;
  return static_cast<UnaryFloat>(it - functions.begin());
}

std::pair<double, double> torch_tile::rangeOfUnary(UnaryFloat function) {
  auto position = static_cast<uint64_t>(function);
  return position < functions.size() ? std::pair(functions[position].min, functions[position].max)
                                     : std::pair(-infinity, infinity);
}

std::optional<int64_t> torch_tile::applyFloatFn(FloatFn fn, int64_t a, int64_t b) {
  double x = floatOfBits(a), y = floatOfBits(b);
  switch (fn) {
  case FloatFn::IntTrueDiv:
    return b == 0 ? std::nullopt : std::optional(bitsOfFloat(static_cast<double>(a) / static_cast<double>(b)));
  case FloatFn::Add:
    return bitsOfFloat(x + y);
  case FloatFn::Mul:
    return bitsOfFloat(x * y);
  case FloatFn::TrueDiv:
    return y == 0 ? std::nullopt : std::optional(bitsOfFloat(x / y));
  case FloatFn::Pow:
    return bitsOfFloat(std::pow(x, y));
  case FloatFn::Min:
    return bitsOfFloat(std::min(x, y));
  case FloatFn::Max:
    return bitsOfFloat(std::max(x, y));
  case FloatFn::ToInt:
    return roundToInt(x, b);
  case FloatFn::Unary:
    return bitsOf(applyUnary(static_cast<UnaryFloat>(b), x));
  case FloatFn::RoundDecimal:
    return bitsOf(roundDecimal(x, b));
  }
  return std::nullopt;
}
