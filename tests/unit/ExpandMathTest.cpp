// Compiles a loop over each math op with LLVM's JIT and compares with a more precise reference.
//
// TORCH_TILE_LIBTORCH_CPU: path of libtorch_cpu.so; without it the ops that call Sleef are checked through libm only.
// TORCH_TILE_ULP_STEP: distance in bits between the floats tried (1 is exhaustive: minutes for each op).

#include "compiler/codegen/common/ExpandMath.h"
#include "VectorJit.h"
#include "compiler/codegen/common/Philox.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>

using namespace mlir;
using namespace torch_tile::codegen;

namespace {

std::string unaryBody(const std::string &op, int64_t lanes, const std::string &type) {
  std::string shaped = lanes ? "vector<" + std::to_string(lanes) + "x" + type + ">" : type;
  return "%r = math." + op + " %x : " + shaped;
}

std::string binaryBody(const std::string &op, int64_t lanes, const std::string &type) {
  std::string shaped = lanes ? "vector<" + std::to_string(lanes) + "x" + type + ">" : type;
  return "%r = math." + op + " %x, %y : " + shaped;
}

/// Error of `got` in units of the last place of `exact` as a float (or double) of the given precision.
template <typename T, typename Wide> double ulpError(T got, Wide exact) {
  T rounded = T(exact);
  if (std::isnan(exact) || std::isnan(got))
    return std::isnan(exact) && std::isnan(got) ? 0.0 : HUGE_VAL;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (rounded == got)
      return 0.0;
    // One ulp around the overflow threshold is not a wrong infinity.
    T largest = std::copysign(std::numeric_limits<T>::max(), rounded);
    return (std::isinf(rounded) ? got == largest : rounded == largest) ? 1.0 : HUGE_VAL;
  }
  if (exact == 0)
    return got == 0 && std::signbit(got) == std::signbit(exact) ? 0.0 : HUGE_VAL;
  if (got != 0 && std::signbit(got) != std::signbit(exact))
    return HUGE_VAL;
  int exponent;
  std::frexp(exact, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  return double(std::fabs(Wide(got) - exact) / std::ldexp(Wide(1), exponent - std::numeric_limits<T>::digits));
}

struct Worst {
  double ulp = 0;
  double at = 0;
};

int64_t ulpStep() {
  const char *step = std::getenv("TORCH_TILE_ULP_STEP");
  return step ? std::atoll(step) : 2039; // a prime near 2^11: all exponents, all low bits
}

/// Sweeps all floats at a distance, then the neighbours of zero, of every power of two and of small multiples of pi/4.
Worst sweepF32(Kernel kernel, const std::function<double(double)> &reference) {
  constexpr int64_t kChunk = 1 << 16;
  std::vector<float> input(kChunk), output(kChunk);
  Worst worst;
  int64_t used = 0;
  auto flush = [&] {
    std::fill(input.begin() + used, input.end(), 1.0f);
    kernel(input.data(), input.data(), output.data(), kChunk);
    for (int64_t i = 0; i < used; ++i)
      if (double error = ulpError(output[i], reference(input[i])); !(error <= worst.ulp)) {
        worst = {error, input[i]};
      }
    used = 0;
  };
  auto push = [&](uint32_t bits) {
    input[used++] = std::bit_cast<float>(bits);
    if (used == kChunk)
      flush();
  };
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += ulpStep())
    push(uint32_t(bits));
  for (uint32_t sign : {0u, 0x80000000u}) {
    for (uint32_t exponent = 0; exponent < 256; ++exponent)
      for (int32_t delta = -64; delta <= 64; ++delta)
        push(sign | ((exponent << 23) + uint32_t(delta)));
    for (int multiple = 1; multiple < 2000; ++multiple)
      for (int32_t delta = -4; delta <= 4; ++delta)
        push(sign | (std::bit_cast<uint32_t>(float(multiple * 0.78539816339744830962)) + uint32_t(delta)));
  }
  flush();
  return worst;
}

double nanosPerElement(Kernel kernel, float low, float high) {
  constexpr int64_t kCount = 4096;
  std::vector<float> input(kCount), output(kCount);
  for (int64_t i = 0; i < kCount; ++i)
    input[i] = low + (high - low) * float(i) / kCount;
  double best = 1e30;
  for (int trial = 0; trial < 20; ++trial) {
    auto start = std::chrono::steady_clock::now();
    for (int repeat = 0; repeat < 20; ++repeat)
      kernel(input.data(), input.data(), output.data(), kCount);
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() /
                              (20.0 * kCount));
  }
  return best;
}

struct UnaryCase {
  const char *op;
  double (*reference)(double);
  double boundUlp;
  float low, high; // range timed
};

double rsqrtReference(double x) { return double(1.0f / float(std::sqrt(x))); }

const UnaryCase kInlineCases[] = {
    {"exp", std::exp, 1.0, -10, 10},       {"exp2", std::exp2, 1.0, -10, 10},
    {"expm1", std::expm1, 1.3, -2, 2},     {"tanh", std::tanh, 1.25, -3, 3},
    {"erf", std::erf, 2.0, -3, 3},         {"log", std::log, 0.95, 0.01f, 100},
    {"log2", std::log2, 1.45, 0.01f, 100}, {"log10", std::log10, 1.25, 0.01f, 100},
    {"log1p", std::log1p, 1.3, -0.5f, 10}, {"sinh", std::sinh, 2.0, -3, 3},
    {"cosh", std::cosh, 2.0, -3, 3},       {"asinh", std::asinh, 3.0, -9, 9},
    {"acosh", std::acosh, 3.0, 1, 9},      {"rsqrt", rsqrtReference, 0.0, 1, 9},
    {"erfc", std::erfc, 1.6, -2, 5},       {"atan", std::atan, 1.25, -3, 3},
};

// Sleef promises 1.0 ulp on normal results; the slack is for its rounding near the bound. Of sin, cos and tan the
// library computes what exceeds the inline forms' range.
const UnaryCase kLibraryCases[] = {
    {"sin", std::sin, 1.6, -30, 30}, {"cos", std::cos, 1.6, -30, 30}, {"tan", std::tan, 1.3, -30, 30},
    {"asin", std::asin, 1.1, -1, 1}, {"acos", std::acos, 1.1, -1, 1}, {"atanh", std::atanh, 1.1, -1, 1},
    {"cbrt", std::cbrt, 1.1, -9, 9},
};

void checkCases(llvm::ArrayRef<UnaryCase> cases) {
  std::printf("%-8s %10s %16s %12s\n", "op", "max ulp", "at", "ns/element");
  for (const UnaryCase &unary : cases) {
    Kernel kernel = jit().compileLoop(16, "f32", "f32", unaryBody(unary.op, 16, "f32"));
    Worst worst = sweepF32(kernel, unary.reference);
    Kernel wide = jit().compileLoop(64, "f32", "f32", unaryBody(unary.op, 64, "f32"));
    double nanos =
        std::min(nanosPerElement(kernel, unary.low, unary.high), nanosPerElement(wide, unary.low, unary.high));
    std::printf("%-8s %10.3f %16.9g %12.3f\n", unary.op, worst.ulp, worst.at, nanos);
    EXPECT_LE(worst.ulp, unary.boundUlp) << unary.op << " at " << worst.at;
  }
}

TEST(ExpandMath, InlineFunctionsAreAccurate) { checkCases(kInlineCases); }

TEST(ExpandMath, LibraryFunctionsAreAccurate) {
  if (!loadSleef())
    GTEST_SKIP() << "TORCH_TILE_LIBTORCH_CPU names no loadable libtorch_cpu.so";
  checkCases(kLibraryCases);
}

TEST(ExpandMath, LanesDoNotDependOnTheVectorWidth) {
  constexpr int64_t kCount = 96 * 7; // a multiple of every width below but 64, which gets room
  std::vector<float> input(kCount + 64, 0.5f), expected(kCount + 64), output(kCount + 64);
  for (int64_t i = 0; i < kCount; ++i)
    input[i] = std::ldexp(float((i * 2654435761u) % 8191) - 4095.0f, int(i % 23) - 16);
  for (const char *op : {"exp", "tanh", "erf", "log", "log1p", "sin", "cos", "tan", "atan", "asinh", "erfc"}) {
    Kernel scalar = jit().compileLoop(0, "f32", "f32", unaryBody(op, 0, "f32"));
    scalar(input.data(), input.data(), expected.data(), kCount);
    for (int64_t lanes : {1, 3, 4, 16, 24, 32, 48, 64}) {
      Kernel kernel = jit().compileLoop(lanes, "f32", "f32", unaryBody(op, lanes, "f32"));
      kernel(input.data(), input.data(), output.data(), kCount);
      for (int64_t i = 0; i < kCount; ++i)
        ASSERT_TRUE(std::bit_cast<uint32_t>(output[i]) == std::bit_cast<uint32_t>(expected[i]) ||
                    (std::isnan(output[i]) && std::isnan(expected[i])))
            << op << " x " << lanes << " lanes: " << output[i] << " and " << expected[i] << " at " << input[i];
    }
  }
}

TEST(ExpandMath, LibmStandsInForSleef) {
  ExpandMathOptions options;
  options.hasSleef = false;
  options.hasInlineTrig = false;
  std::vector<float> input = {0.0f, -0.0f, 0.5f, -1.0f, 3.0f, 1e30f, INFINITY, NAN}, output(8);
  Kernel kernel = jit().compileLoop(4, "f32", "f32", unaryBody("cbrt", 4, "f32"), options);
  kernel(input.data(), input.data(), output.data(), 8);
  for (int i = 0; i < 8; ++i)
    EXPECT_LE(ulpError(output[i], std::cbrt(double(input[i]))), 1.0);
  auto module = jit().parse(Jit::loopText("symbols", 8, "f32", "f32", unaryBody("sin", 8, "f32")));
  expandMath(*module, options);
  EXPECT_EQ(collectExternalSymbols(*module), (llvm::SmallVector<std::string>{"sinf"}));
}

TEST(ExpandMath, LargeAnglesShareOneFunction) {
  if (!loadSleef())
    GTEST_SKIP() << "TORCH_TILE_LIBTORCH_CPU names no loadable libtorch_cpu.so";
  std::string body = "%0 = math.sin %x : vector<32xf32>\n%r = math.sin %0 : vector<32xf32>";
  auto module = jit().parse(Jit::loopText("shared", 32, "f32", "f32", body));
  expandMath(*module, hostOptions());
  int functions = 0;
  module->walk([&](LLVM::LLVMFuncOp function) { functions += function.getSymName().starts_with("tile_sin"); });
  EXPECT_EQ(functions, 1);
  // On both sides of the limits of the forms, among moderate neighbours.
  std::vector<float> input(32, 0.5f), output(32);
  const float large[] = {29999.9f,       30001.0f, 1e6f,  0x1p31f,  2.7e14f, 0x1p48f,
                         0x1.000002p48f, 1e20f,    3e38f, INFINITY, NAN};
  std::copy(std::begin(large), std::end(large), input.begin() + 3);
  const std::pair<const char *, double (*)(double)> cases[] = {{"sin", std::sin}, {"cos", std::cos}, {"tan", std::tan}};
  for (auto [op, reference] : cases) {
    Kernel kernel = jit().compileLoop(32, "f32", "f32", unaryBody(op, 32, "f32"));
    kernel(input.data(), input.data(), output.data(), 32);
    for (int i = 0; i < 32; ++i)
      EXPECT_LE(ulpError(output[i], reference(input[i])), 1.6) << op << " of " << input[i];
  }
}

TEST(ExpandMath, SleefSymbolsFollowTheRegisterWidth) {
  for (auto [bits, name] : {std::pair{512, "Sleef_powf16_u10"}, {256, "Sleef_powf8_u10"}, {128, "Sleef_powf4_u10"}}) {
    ExpandMathOptions options;
    options.vectorBits = bits;
    auto module = jit().parse(Jit::loopText("symbols", 32, "f32", "f32", binaryBody("powf", 32, "f32")));
    expandMath(*module, options);
    EXPECT_EQ(collectExternalSymbols(*module), (llvm::SmallVector<std::string>{name}));
  }
}

TEST(ExpandMath, DoubleFunctionsAreAccurate) {
  if (!loadSleef())
    GTEST_SKIP() << "TORCH_TILE_LIBTORCH_CPU names no loadable libtorch_cpu.so";
  using Reference = long double (*)(long double);
  const std::tuple<const char *, Reference, double> cases[] = {
      {"exp", std::exp, 1.1},     {"log", std::log, 1.1},     {"tanh", std::tanh, 1.1},   {"erf", std::erf, 1.35},
      {"sin", std::sin, 1.1},     {"cos", std::cos, 1.1},     {"exp2", std::exp2, 1.1},   {"log2", std::log2, 1.1},
      {"log1p", std::log1p, 1.1}, {"expm1", std::expm1, 1.1}, {"log10", std::log10, 1.1}, {"atan", std::atan, 1.1},
      {"erfc", std::erfc, 1.35}, // 1.0 and what erfcl is wrong by
  };
  constexpr int64_t kCount = 1 << 16;
  std::vector<double> input(kCount), output(kCount);
  for (int64_t i = 0; i < kCount; ++i)
    input[i] = i % 2 ? std::ldexp(double((i * 2654435761u) % 65521) - 32760.0, int(i % 40) - 36)
                     : 35.0 * double(i) / kCount - 7.0; // where erf and erfc change
  input[0] = 0.0, input[1] = -0.0, input[2] = INFINITY, input[3] = -INFINITY, input[4] = NAN, input[5] = 5e-324;
  for (bool hasInstructions : {false, true}) { // with them, some functions are inline
    if (hasInstructions && !hasAvx512())
      continue;
    ExpandMathOptions options = hostOptions();
    options.hasAvx512 = hasInstructions;
    for (auto [op, reference, boundUlp] : cases) {
      Kernel kernel = jit().compileLoop(16, "f64", "f64", unaryBody(op, 16, "f64"), options);
      kernel(input.data(), input.data(), output.data(), kCount);
      Worst worst;
      for (int64_t i = 0; i < kCount; ++i)
        if (double error = ulpError(output[i], reference((long double)input[i])); !(error <= worst.ulp))
          worst = {error, input[i]};
      std::printf("%-8s f64 %8.3f ulp at %.17g\n", op, worst.ulp, worst.at);
      EXPECT_LE(worst.ulp, boundUlp) << op << " at " << worst.at;
    }
  }
}

TEST(ExpandMath, BinaryFunctionsAreAccurate) {
  if (!loadSleef())
    GTEST_SKIP() << "TORCH_TILE_LIBTORCH_CPU names no loadable libtorch_cpu.so";
  const float values[] = {0.0f,      -0.0f, 1.0f,    -1.0f,   0.5f,    -0.5f,     2.0f,   -2.0f,
                          3.0f,      -3.0f, 1e-40f,  -1e-40f, 1.5e38f, 7.25f,     -1e10f, INFINITY,
                          -INFINITY, NAN,   0.3333f, 100.0f,  -33.0f,  1.0000001f};
  std::vector<float> left, right;
  for (float x : values)
    for (float y : values)
      left.push_back(x), right.push_back(y);
  left.resize(left.size() + 16, 1.0f), right.resize(left.size(), 1.0f);
  std::vector<float> output(left.size() + 16);
  for (auto [isPow, vectorBits] :
       {std::pair{true, int(hostVectorBits())}, {false, int(hostVectorBits())}, {true, 256}}) {
    ExpandMathOptions options;
    options.vectorBits = vectorBits;
    Kernel kernel = jit().compileLoop(16, "f32", "f32", binaryBody(isPow ? "powf" : "atan2", 16, "f32"), options);
    kernel(left.data(), right.data(), output.data(), int64_t(left.size() / 16 * 16));
    for (size_t i = 0; i < std::size(values) * std::size(values); ++i) {
      double exact =
          isPow ? std::pow(double(left[i]), double(right[i])) : std::atan2(double(left[i]), double(right[i]));
      EXPECT_LE(ulpError(output[i], exact), 1.1)
          << (isPow ? "pow " : "atan2 ") << left[i] << ", " << right[i] << " got " << output[i];
    }
  }
}

uint16_t referenceBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::isnan(value) ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

TEST(ExpandMath, BF16RoundsToNearestEven) {
  constexpr int64_t kCount = 1 << 16;
  std::vector<float> input(kCount), back(kCount);
  std::vector<uint16_t> output(kCount);
  for (int64_t lanes : {0, 16, 64}) {
    std::string f = lanes ? "vector<" + std::to_string(lanes) + "xf32>" : "f32",
                h = lanes ? "vector<" + std::to_string(lanes) + "xbf16>" : "bf16";
    Kernel truncate = jit().compileLoop(lanes, "f32", "bf16", "%r = arith.truncf %x : " + f + " to " + h);
    Kernel extend = jit().compileLoop(lanes, "bf16", "f32", "%r = arith.extf %x : " + h + " to " + f);
    for (uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      for (int64_t i = 0; i < kCount; ++i)
        input[i] = std::bit_cast<float>(uint32_t(i) << 16 | low);
      truncate(input.data(), input.data(), output.data(), kCount);
      for (int64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(output[i], referenceBF16(input[i])) << input[i];
    }
    for (int64_t i = 0; i < kCount; ++i)
      output[i] = uint16_t(i);
    extend(output.data(), output.data(), back.data(), kCount);
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), uint32_t(i) << 16);
  }
}

TEST(ExpandMath, HalfTypesComputeInF32AndRoundOnce) {
  constexpr int64_t kCount = 1 << 16;
  std::vector<uint16_t> input(kCount), output(kCount);
  for (int64_t i = 0; i < kCount; ++i)
    input[i] = uint16_t(i);
  std::vector<float> wide(kCount), exact(kCount);
  for (int64_t i = 0; i < kCount; ++i)
    wide[i] = std::bit_cast<float>(uint32_t(i) << 16);
  jit().compileLoop(16, "bf16", "bf16", unaryBody("exp", 16, "bf16"))(input.data(), input.data(), output.data(),
                                                                      kCount);
  jit().compileLoop(16, "f32", "f32", unaryBody("exp", 16, "f32"))(wide.data(), wide.data(), exact.data(), kCount);
  for (int64_t i = 0; i < kCount; ++i)
    ASSERT_EQ(output[i], referenceBF16(exact[i])) << wide[i];
}

/// The value of an f8 pattern, by the definition of the format.
float decodeFloat8(int pattern, int mantissaBits, int bias, bool hasInfinity) {
  int mantissa = pattern & ((1 << mantissaBits) - 1), exponent = (pattern & 0x7f) >> mantissaBits,
      largest = (1 << (7 - mantissaBits)) - 1;
  float sign = pattern & 0x80 ? -1.0f : 1.0f;
  if (hasInfinity && exponent == largest)
    return mantissa ? NAN : sign * INFINITY;
  if (!hasInfinity && (pattern & 0x7f) == 0x7f)
    return NAN;
  return sign * (exponent ? std::ldexp(1.0f + std::ldexp(float(mantissa), -mantissaBits), exponent - bias)
                          : std::ldexp(float(mantissa), 1 - bias - mantissaBits));
}

TEST(ExpandMath, Float8IsExact) {
  for (auto [type, mantissaBits, bias, hasInfinity] : {std::tuple{"f8E4M3FN", 3, 7, false}, {"f8E5M2", 2, 15, true}}) {
    std::string f = "vector<16xf32>", h = std::string("vector<16x") + type + ">";
    Kernel truncate = jit().compileLoop(16, "f32", type, "%r = arith.truncf %x : " + f + " to " + h);
    Kernel extend = jit().compileLoop(16, type, "f32", "%r = arith.extf %x : " + h + " to " + f);
    std::vector<uint8_t> patterns(256);
    std::vector<float> values(256);
    for (int i = 0; i < 256; ++i)
      patterns[i] = uint8_t(i);
    extend(patterns.data(), patterns.data(), values.data(), 256);
    for (int i = 0; i < 256; ++i) {
      float expected = decodeFloat8(i, mantissaBits, bias, hasInfinity);
      ASSERT_TRUE(values[i] == expected || (std::isnan(values[i]) && std::isnan(expected))) << type << " " << i;
      if (!std::isnan(expected)) {
        ASSERT_EQ(std::signbit(values[i]), std::signbit(expected));
      }
    }
    // Every midpoint between neighbours and the floats beside it, and the patterns themselves.
    std::vector<float> input;
    std::vector<int> expected;
    for (int sign : {0, 0x80})
      for (int i = 0; i < 0x7e && std::isfinite(values[i + 1]); ++i) {
        float middle = (values[i] + values[i + 1]) / 2;
        int even = i & 1 ? i + 1 : i;
        float factor = sign ? -1.0f : 1.0f;
        for (auto [value, pattern] : {std::pair{values[i], i},
                                      {middle, even},
                                      {std::nextafter(middle, 0.0f), i},
                                      {std::nextafter(middle, INFINITY), i + 1}})
          input.push_back(factor * value), expected.push_back(sign | pattern);
      }
    for (auto [value, pattern] : {std::pair{INFINITY, hasInfinity ? 0x7c : 0x7f},
                                  {3e38f, hasInfinity ? 0x7c : 0x7f},
                                  {1e-40f, 0},
                                  {-INFINITY, hasInfinity ? 0xfc : 0xff}})
      input.push_back(value), expected.push_back(pattern);
    input.push_back(hasInfinity ? 61440.0f : 464.0f), expected.push_back(hasInfinity ? 0x7c : 0x7e);
    input.push_back(std::nextafter(input.back(), INFINITY)), expected.push_back(hasInfinity ? 0x7c : 0x7f);
    size_t count = input.size();
    input.resize((count + 15) / 16 * 16);
    std::vector<uint8_t> output(input.size());
    truncate(input.data(), input.data(), output.data(), int64_t(input.size()));
    for (size_t i = 0; i < count; ++i)
      ASSERT_EQ(int(output[i]), expected[i]) << type << " of " << input[i];
    float nan = NAN;
    std::fill(input.begin(), input.end(), nan);
    truncate(input.data(), input.data(), output.data(), 16);
    EXPECT_EQ(output[0] & 0x7f, 0x7f);
  }
}

TEST(ExpandMath, IntegerPowersWrap) {
  const int32_t bases[] = {0, 1, -1, 2, -3, 7, 46341, INT32_MIN}, exponents[] = {0, 1, 2, 5, 31, 33, -1, -2};
  std::vector<int32_t> left, right, output(64);
  for (int32_t base : bases)
    for (int32_t exponent : exponents)
      left.push_back(base), right.push_back(exponent);
  Kernel kernel = jit().compileLoop(8, "i32", "i32", binaryBody("ipowi", 8, "i32"));
  kernel(left.data(), right.data(), output.data(), 64);
  for (int i = 0; i < 64; ++i) {
    uint32_t expected = 1;
    for (int32_t k = 0; k < right[i]; ++k)
      expected *= uint32_t(left[i]);
    if (right[i] < 0)
      expected = left[i] == 1 ? 1 : left[i] == -1 ? (right[i] & 1 ? ~0u : 1u) : 0;
    EXPECT_EQ(uint32_t(output[i]), expected) << left[i] << " to the power " << right[i];
  }
  Kernel constant = jit().compileLoop(
      8, "i32", "i32", "%c = arith.constant dense<5> : vector<8xi32>\n%r = math.ipowi %x, %c : vector<8xi32>");
  constant(left.data(), left.data(), output.data(), 64);
  for (int i = 0; i < 64; ++i) {
    uint32_t base = uint32_t(left[i]);
    EXPECT_EQ(uint32_t(output[i]), base * base * base * base * base);
  }
}

TEST(ExpandMath, PhiloxMatchesThePublishedVectors) {
  // Known answers of the Random123 distribution.
  const uint32_t counters[3][4] = {
      {0, 0, 0, 0}, {~0u, ~0u, ~0u, ~0u}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
  const uint32_t keys[3][2] = {{0, 0}, {~0u, ~0u}, {0xa4093822, 0x299f31d0}};
  const uint32_t answers[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                  {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                  {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
  for (int64_t lanes : {0, 3, 16}) {
    for (int word = 0; word < 4; ++word) {
      for (int test = 0; test < 3; ++test) {
        std::string name = "philox" + std::to_string(lanes) + "_" + std::to_string(word) + std::to_string(test);
        std::string shaped = lanes ? "vector<" + std::to_string(lanes) + "xi32>" : "i32";
        auto module = jit().parse(Jit::loopText(name, lanes, "i32", "i32", "%r = arith.addi %x, %y : " + shaped));
        Operation *sum = nullptr;
        module->walk([&](arith::AddIOp op) { sum = op; });
        ImplicitLocOpBuilder builder(sum->getLoc(), sum);
        auto constant = [&](uint32_t value) -> Value {
          return arith::ConstantOp::create(builder, builder.getI32IntegerAttr(int32_t(value)));
        };
        SmallVector<Value> counter = {sum->getOperand(0)};
        for (int i = 1; i < 4; ++i)
          counter.push_back(constant(counters[test][i]));
        auto words = philox4x32(builder, constant(keys[test][0]), constant(keys[test][1]), counter);
        sum->getResult(0).replaceAllUsesWith(words[word]);
        Kernel kernel = jit().compile(*module, name);
        std::vector<uint32_t> input(48, counters[test][0]), output(48);
        kernel(input.data(), input.data(), output.data(), 48);
        for (uint32_t value : output)
          ASSERT_EQ(value, answers[test][word]);
      }
    }
  }
}

TEST(ExpandMath, LeavesWhatIsNotItsOwn) {
  const char *text = R"(
    llvm.func @f(%b: vector<8xf32>, %c: vector<8xi1>) -> vector<8xf32> {
      %a = arith.constant dense<1.0> : vector<4x4xf32>
      %0 = math.exp %a : vector<4x4xf32>
      %1 = math.sqrt %b : vector<8xf32>
      %2 = math.fma %1, %b, %b : vector<8xf32>
      %3 = arith.andi %c, %c : vector<8xi1>
      llvm.return %2 : vector<8xf32>
    })";
  auto module = jit().parse(text);
  int before = 0, after = 0;
  module->walk([&](Operation *) { ++before; });
  expandMath(*module);
  module->walk([&](Operation *) { ++after; });
  EXPECT_EQ(before, after);
}

TEST(ExpandMath, IsFast) {
  std::string body =
      "%0 = math.exp %x : vector<16xf32>\n%1 = math.tanh %0 : vector<16xf32>\n%2 = math.erf %1 : vector<16xf32>\n"
      "%3 = math.log %2 : vector<16xf32>\n%r = math.exp %3 : vector<16xf32>";
  double best = 1e9;
  for (int trial = 0; trial < 20; ++trial) {
    auto module = jit().parse(Jit::loopText("timed", 16, "f32", "f32", body));
    auto start = std::chrono::steady_clock::now();
    expandMath(*module);
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("expandMath of exp, tanh, erf, log, exp: %.3f ms\n", best);
  EXPECT_LT(best, 3.0); // ten times the aim: machines are busy
}

} // namespace
