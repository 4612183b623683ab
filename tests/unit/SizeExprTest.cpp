// The algebra of sizes and indices: identities by name. SizeExprRandomTest.cpp compares with brute force.
#include "SizeAssignments.h"
#include "support/ExprBudget.h"
#include "support/FloatSizes.h"
#include "support/SizeFacts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

using namespace torch_tile;

namespace {

class SizeExprTest : public testing::Test {
protected:
  SizeExpr parse(std::string_view text) {
    std::string error;
    SizeExpr e = context.parse(text, &error);
    EXPECT_TRUE(e) << error;
    return e ? e : context.constant(0);
  }
  std::string parseError(std::string_view text) {
    std::string error;
    EXPECT_FALSE(context.parse(text, &error)) << text;
    return error;
  }
  void expectSame(std::string_view a, std::string_view b) { EXPECT_EQ(parse(a).str(), parse(b).str()) << a; }
  void expectSimplified(std::string_view text, std::string_view expected) {
    EXPECT_EQ(facts.simplify(parse(text)).str(), parse(expected).str()) << text;
  }

  SizeContext context;
  SizeFacts facts{context};
};

TEST_F(SizeExprTest, PolynomialsAreCanonical) {
  expectSame("(s0*s1)*s2", "s0*(s1*s2)");
  expectSame("(s0 + s1)*(s0 - s1)", "s0**2 - s1**2");
  EXPECT_EQ(parse("s0*s1"), parse("s1*s0"));
  EXPECT_EQ(parse("s0 - s0"), context.constant(0));
  EXPECT_TRUE(parse("3*4 - 12").isConstant(0));
}

TEST_F(SizeExprTest, PrintsPythonInAnOrderIndependentOfCreation) {
  for (auto [text, printed] : std::vector<std::pair<const char *, const char *>>{
           {"2 + s1*s0", "s0*s1 + 2"},
           {"(i1 + 3*i0)//64", "(i0*3 + i1)//64"},
           {"s10 + s9", "s9 + s10"},
           {"-s0 - 3", "-s0 - 3"},
           {"Mod(s0, 2) - (s0//3)*2", "-(s0//3)*2 + Mod(s0, 2)"},
           {"8 - s0//3", "-(s0//3) + 8"},
           {"Min(8, s0)", "Min(s0, 8)"},
           {"s0*s0*s1", "s0**2*s1"},
           {"-(s0//2)**2", "-(s0//2)**2"},
           {"FloorDiv(s0, s1 + 1)", "s0//(s1 + 1)"},
       }) {
    SizeContext fresh;
    EXPECT_EQ(fresh.parse(text).str(), printed) << text;
    EXPECT_EQ(parse(printed), parse(text)) << text;
  }
}

TEST_F(SizeExprTest, CountsNodesOfTheTree) {
  for (auto [text, size] : std::vector<std::pair<const char *, uint32_t>>{{"7", 1},
                                                                          {"0", 1},
                                                                          {"s0", 1},
                                                                          {"2*s0", 2},
                                                                          {"s0 + 1", 3},
                                                                          {"s0*s1", 3},
                                                                          {"s0//s1", 3},
                                                                          {"Min(s0, s1, 4)", 4}})
    EXPECT_EQ(treeSize(parse(text)), size) << text;
}

/// Index maps of view chains share their parts: 300 steps are some thousand nodes, and a tree of 2^300.
TEST_F(SizeExprTest, WalksSharedPartsOnce) {
  facts.setExtent("i0", context.constant(77));
  facts.setRange("s0", 2, 1000);
  facts.setDivisor("s0", 2);
  SizeExpr e = context.symbol("i0");
  for (int step = 0; step < 300; ++step) {
    SizeExpr inner = context.add(context.mul(e, context.constant(7)), context.symbol("s0"));
    e = context.add(context.mul(context.mod(inner, context.constant(11)), context.constant(7)),
                    context.floorDiv(inner, context.constant(11)));
  }
  EXPECT_EQ(treeSize(e), UINT32_MAX);
  EXPECT_TRUE(e.contains("i0"));
  EXPECT_FALSE(e.contains("i1"));
  EXPECT_EQ(e.symbols(), (std::vector<std::string_view>{"i0", "s0"}));
  EXPECT_LT(e.str().size(), 100u);
  int64_t expected = 5;
  for (int step = 0; step < 300; ++step) {
    int64_t inner = expected * 7 + 40;
    expected = inner % 11 * 7 + inner / 11;
  }
  EXPECT_EQ(valueOf(e, {{"i0", 5}, {"s0", 40}}), expected);
  SizeExpr replaced =
      context.substitute(e, [&](std::string_view name) { return context.constant(name == "i0" ? 5 : 40); });
  EXPECT_EQ(replaced.constant(), expected);
  facts.setHint("s0", 40);
  EXPECT_GE(facts.estimate(e), 0);
  EXPECT_GE(facts.range(e).min, 0);
  EXPECT_EQ(facts.divides(context.constant(1 << 20), e), Proof::Unknown);
  // Of numbers without end: int64 may not hold what the simpler form is computed from.
  if (auto value = valueOf(facts.simplify(e), {{"i0", 5}, {"s0", 40}})) {
    EXPECT_EQ(value, expected);
  }
  EXPECT_EQ(facts.equal(facts.simplify(e), facts.simplify(e)), Proof::Yes);
}

TEST_F(SizeExprTest, ParsesWhatTorchPrints) {
  expectSame("s0*s1//2", "(s0*s1)//2");
  expectSame("-s0//2", "(-s0)//2");
  expectSame("-s0**2", "-(s0*s0)");
  expectSame("s0 % 8", "Mod(s0, 8)");
  expectSame("PythonMod(s0, 8)", "Mod(s0, 8)");
  expectSame("CleanDiv(s0, 8)", "s0//8");
  expectSame("CeilDiv(s0, 8)", "(s0 + 7)//8");
  expectSame("Max(1, s0, Max(s1, 3))", "Max(s0, s1, 3)");
  expectSame("TruncToInt(IntTrueDiv(7*s0, 7))", "s0");
  expectSame("PowByNatural(s0, 3)", "s0**3");
  EXPECT_EQ(parse("-9223372036854775808"), context.constant(INT64_MIN));
}

TEST_F(SizeExprTest, GoesThroughFloats) {
  struct Case {
    const char *text;
    std::function<double(double)> expected;
  } cases[] = {
      {"TruncToInt(1.5*ToFloat(s0))", [](double x) { return std::trunc(1.5 * x); }},
      {"FloorToInt(-0.1*ToFloat(s0) + 2.5)", [](double x) { return std::floor(-0.1 * x + 2.5); }},
      {"CeilToInt(FloatTrueDiv(ToFloat(s0), 3.0))", [](double x) { return std::ceil(x / 3); }},
      {"RoundToInt(IntTrueDiv(s0, 2) + 1.0)", [](double x) { return std::nearbyint(x / 2 + 1); }},
      {"TruncToInt(Max(2.0, ToFloat(s0)**0.5))", [](double x) { return std::trunc(std::max(2.0, std::sqrt(x))); }},
      {"CeilToInt(FloorToInt(1.5*ToFloat(s0)))", [](double x) { return std::floor(1.5 * x); }},
      {"CeilToInt(OpaqueUnaryFn_log2(ToFloat(s0 + 1)))", [](double x) { return std::ceil(std::log2(x + 1)); }},
      {"FloorToInt(100.0*OpaqueUnaryFn_tanh(OpaqueUnaryFn_sqrt(ToFloat(s0))))",
       [](double x) { return std::floor(100 * std::tanh(std::sqrt(x))); }},
      {"TruncToInt(100.0*RoundDecimal(IntTrueDiv(s0, 8), 1))",
       [](double x) { return std::trunc(100 * (std::nearbyint(x / 8 * 10) / 10)); }},
      {"RoundToInt(RoundDecimal(ToFloat(s0), -1))", [](double x) { return 10 * std::nearbyint(x / 10); }},
      {"4*TruncToInt((ToFloat(s0) - 1.0)/2.0e-1) - 1", [](double x) { return 4 * std::trunc((x - 1.0) / 0.2) - 1; }},
  };
  for (const Case &c : cases) {
    SizeExpr e = parse(c.text);
    EXPECT_EQ(parse(e.str()), e) << e.str();
    for (int64_t s0 : {0, 1, 2, 3, 5, 7, 30, 1001}) {
      auto value = SizeContext::evaluate(e, [&](std::string_view) { return std::optional<int64_t>(s0); });
      EXPECT_EQ(value, static_cast<int64_t>(c.expected(static_cast<double>(s0)))) << c.text << " of " << s0;
      SizeExpr replaced = context.substitute(e, [&](std::string_view) { return context.constant(s0); });
      EXPECT_EQ(replaced.constant(), value) << c.text << " of " << s0;
    }
  }
  SizeFacts facts(context);
  facts.setRange("s0", 2, 1000);
  SizeRange range = facts.range(parse("TruncToInt(1.5*ToFloat(s0) + 0.75)"));
  EXPECT_EQ(range.min, 3);
  EXPECT_EQ(range.max, 1500);
  EXPECT_EQ(facts.simplify(parse("RoundToInt(0.5*ToFloat(s0 + s0 - s0))")), parse("RoundToInt(0.5*ToFloat(s0))"));
  EXPECT_FALSE(context
                   .substitute(parse("TruncToInt(FloatTrueDiv(1.0, ToFloat(s0)))"),
                               [&](std::string_view) { return context.constant(0); })
                   .isValid());
}

TEST_F(SizeExprTest, RoundsToDecimalsAsPython) {
  struct Case {
    double x;
    int64_t digits;
    double expected;
  } cases[] = {{2.675, 2, 2.67}, {0.125, 2, 0.12}, {0.375, 2, 0.38},        {1e22 / 3, 5, 1e22 / 3},
               {25, -1, 20},     {35, -1, 40},     {25.000001, -1, 30},     {4e21, -22, 0},
               {-15, -1, -20},   {5e-324, 323, 0}, {1.0 / 3, 400, 1.0 / 3}, {1e300, 2, 1e300},
               {-0.04, 1, 0}};
  for (const Case &c : cases)
    EXPECT_EQ(applyFloatFn(FloatFn::RoundDecimal, bitsOfFloat(c.x), c.digits), bitsOfFloat(c.expected))
        << c.x << " to " << c.digits;
}

TEST_F(SizeExprTest, FunctionsOfFloatsHaveNoValueWherePythonRaises) {
  struct Case {
    const char *name;
    double x;
  } cases[] = {{"log2", 0}, {"log", -1}, {"sqrt", -1}, {"exp", 1000}, {"sinh", 1000}, {"sin", INFINITY}, {"acos", 2}};
  for (const Case &c : cases) {
    auto function = unaryFloatOf(std::string("OpaqueUnaryFn_") + c.name);
    ASSERT_TRUE(function) << c.name;
    EXPECT_FALSE(applyFloatFn(FloatFn::Unary, bitsOfFloat(c.x), static_cast<int64_t>(*function))) << c.name;
  }
  SizeFacts facts(context);
  EXPECT_EQ(facts.range(parse("FloorToInt(4.0*OpaqueUnaryFn_sin(ToFloat(s0)))")).min, -4);
  EXPECT_EQ(facts.range(parse("FloorToInt(OpaqueUnaryFn_sqrt(ToFloat(s0)))")).min, 0);
}

TEST_F(SizeExprTest, SaysWhyTextIsRefused) {
  EXPECT_NE(parseError("s0/2").find("true division"), std::string::npos);
  EXPECT_NE(parseError("TruncToInt(s0)").find("unsupported function 's0' of floats"), std::string::npos);
  EXPECT_NE(parseError("RoundToInt(1.5*ToFloat(s0)").find("expected ')'"), std::string::npos);
  EXPECT_NE(parseError("FloorToInt(FloatPow(ToFloat(s0)))").find("expects 2 arguments"), std::string::npos);
  EXPECT_NE(parseError("TruncToInt(RoundDecimal(ToFloat(s0), -23))").find("number of digits"), std::string::npos);
  EXPECT_NE(parseError("s0**s1").find("constant exponent"), std::string::npos);
  EXPECT_NE(parseError("Mod(s0)").find("expects 2 arguments, got 1"), std::string::npos);
  EXPECT_NE(parseError("1.5*s0").find("expected an integer"), std::string::npos);
  EXPECT_NE(parseError("99999999999999999999").find("64 bits"), std::string::npos);
  EXPECT_NE(parseError("s0//0").find("division by zero"), std::string::npos);
  EXPECT_NE(parseError("4611686018427387904*2").find("overflow"), std::string::npos);
  for (const char *text : {"", "s0 +", "(s0", "s0)", "Min()", "s0 s1", "*s0", "Foo(1)", "s0 $ 2"})
    parseError(text);
  parseError(std::string(100000, '('));
}

TEST_F(SizeExprTest, OverflowIsInvalidAndPropagates) {
  SizeExpr big = context.constant(INT64_MAX), s0 = context.symbol("s0");
  SizeExpr overflow = context.add(big, context.constant(1));
  EXPECT_FALSE(overflow.isValid());
  EXPECT_FALSE(context.mul(context.mul(s0, big), context.constant(2)).isValid());
  EXPECT_FALSE(context.neg(context.constant(INT64_MIN)).isValid());
  EXPECT_FALSE(context.floorDiv(context.constant(INT64_MIN), context.constant(-1)).isValid());
  for (SizeExpr e : {context.add(overflow, s0), context.mul(overflow, context.constant(0)), context.min(s0, overflow),
                     context.floorDiv(s0, overflow), context.mod(overflow, s0), context.sub(overflow, overflow)})
    EXPECT_FALSE(e.isValid());
  EXPECT_EQ(facts.equal(overflow, overflow), Proof::Unknown);
  EXPECT_EQ(facts.lessEqual(overflow, overflow), Proof::Unknown);
  EXPECT_FALSE(facts.simplify(overflow).isValid());
}

TEST_F(SizeExprTest, DivisionFoldsWhenBuilt) {
  expectSame("(s0*s1)//s1", "s0");
  expectSame("(s0*s1 + s1)//s1", "s0 + 1");
  expectSame("(s0*i0 + i0 + i1)//(s0 + 1)", "i0 + i1//(s0 + 1)");
  expectSame("(12*s0 + i0)//4", "3*s0 + i0//4");
  expectSame("Mod(12*s0 + i0, 4)", "Mod(i0, 4)");
  expectSame("(4*i0 + 4*i1)//8", "(i0 + i1)//2");
  expectSame("(4*i0 + 4*i1 + 3)//8", "(i0 + i1)//2");
  expectSame("Mod(4*i0 + 5, 8)", "4*Mod(i0 + 1, 2) + 1");
  expectSame("(i0 - 1)//4", "(i0 + 3)//4 - 1");
  expectSame("(12*i0 + i1)//8", "i0 + (4*i0 + i1)//8");
  expectSame("s0//(-2)", "(-s0)//2");
  expectSame("i0//4//8", "i0//32");
  expectSame("Mod(Mod(i0, 12), 4)", "Mod(i0, 4)");
  expectSame("Mod(i0, 12)//4", "Mod(i0//4, 3)");
  expectSame("(s0*i0 + s0*i1)//(s0*s1)", "(i0 + i1)//s1");
  expectSame("s0//1 + Mod(s0, 1)", "s0");
  expectSame("Min(s0 + 1, s0, s0 + 2)", "s0");
}

TEST_F(SizeExprTest, SymbolsAreSortedAndUnique) {
  EXPECT_EQ(parse("s1*s0 + (s0 + u0)//s1").symbols(), (std::vector<std::string_view>{"s0", "s1", "u0"}));
  EXPECT_TRUE(parse("s0//(u0 + 1)").contains("u0"));
  EXPECT_FALSE(parse("s0//(u0 + 1)").contains("u1"));
  auto terms = SizeContext::terms(parse("3*s0**2*s1 + 4"));
  ASSERT_EQ(terms.size(), 2u);
  EXPECT_EQ(terms[0].coefficient, 3);
  EXPECT_EQ(terms[0].factors[0], std::make_pair(parse("s0"), 2));
  EXPECT_EQ(SizeContext::asCall(parse("s0//s1"))->args[1], parse("s1"));
}

TEST_F(SizeExprTest, SubstitutesAllAtOnce) {
  SizeExpr swapped = context.substitute(parse("s0//s1 + 2*s0"), [&](std::string_view name) {
    return name == "s0" ? parse("s1") : name == "s1" ? parse("s0") : SizeExpr();
  });
  EXPECT_EQ(swapped, parse("s1//s0 + 2*s1"));
}

TEST_F(SizeExprTest, StaticViewMapsLoseTheirDivisions) {
  facts.setExtent("i0", context.constant(8));
  facts.setExtent("i1", context.constant(12));
  facts.setExtent("i2", context.constant(64));
  expectSimplified("(i0*768 + i1*64 + i2)//768", "i0");
  expectSimplified("Mod((i0*768 + i1*64 + i2)//64, 12)", "i1");
  expectSimplified("Mod(i0*768 + i1*64 + i2, 64)", "i2");
  expectSimplified("(256*i0 + 64*i1 + i2)//64", "4*i0 + i1");
  expectSimplified("(i1*64 + i2)//128", "i1//2");
  expectSimplified("Mod(i1*64 + i2, 128)", "Mod(i1, 2)*64 + i2");
  expectSimplified("(i2//8)*8 + Mod(i2, 8)", "i2");
  expectSimplified("i2 - (i2//8)*8", "Mod(i2, 8)");
  expectSimplified("Mod(i2//4, 4)*4 + Mod(i2, 4)", "Mod(i2, 16)");
  expectSimplified("((i0*12 + i1)//8)*8 + Mod(i0*12 + i1, 8)", "i0*12 + i1");
  expectSimplified("((i1*6 + i2)//10)*5 + Mod(i1*3 + i2//2, 5)", "i1*3 + i2//2");
  expectSimplified("((i1*546 + i2)//630)*630 + Mod(i1*4 + (i1*42 + i2)//126, 5)*126 + Mod(i1*42 + i2, 126)",
                   "i1*546 + i2");
  expectSimplified("Mod(((i1*64 + i2)//96)*96 + Mod(i1*64 + i2, 96), 64)", "i2");
  expectSimplified("Mod(i2 + 64, 128)", "i2 + 64");
  expectSimplified("Min(i0, 8) + Max(i0, 7)", "i0 + 7");
}

TEST_F(SizeExprTest, SymbolicViewMapsLoseTheirDivisions) {
  for (const char *name : {"s0", "s1"})
    facts.setRange(name, 0, INT64_MAX);
  facts.setExtent("i0", parse("s0"));
  facts.setExtent("i1", parse("s1"));
  facts.setExtent("i2", context.constant(64));
  facts.setExtent("i3", parse("s0*s1"));
  facts.setExtent("i4", parse("s0//8"));
  facts.setExtent("i5", context.constant(8));
  expectSimplified("(i0*s1 + i1)//s1", "i0");
  expectSimplified("Mod(i0*s1 + i1, s1)", "i1");
  expectSimplified("(i0*s1*64 + i1*64 + i2)//(64*s1)", "i0");
  expectSimplified("Mod((i0*s1*64 + i1*64 + i2)//64, s1)", "i1");
  expectSimplified("(i3//s1)*s1 + Mod(i3, s1)", "i3");
  expectSimplified("(i0*s1 + i1)//(s0*s1)", "0");
  expectSimplified("i3//(s0*s1)", "0");
  expectSimplified("Mod(i3//s1, s0)", "i3//s1");
  expectSimplified("i3//s1//s0", "0");
  EXPECT_EQ(facts.lessEqual(parse("i0*s1 + i1"), parse("s0*s1 - 1")), Proof::Yes);
  EXPECT_EQ(facts.less(parse("i3//s1"), parse("s0")), Proof::Yes);
  EXPECT_EQ(facts.less(parse("Mod(i3, s1)"), parse("s1")), Proof::Yes);
  EXPECT_EQ(facts.less(parse("i4*8 + i5"), parse("s0")), Proof::Yes);
  EXPECT_EQ(facts.lessEqual(parse("8*(i3//8)"), parse("i3")), Proof::Yes);
  EXPECT_EQ(facts.less(parse("i0"), parse("s1")), Proof::Unknown);
}

TEST_F(SizeExprTest, ProofsUseRangesAndDivisors) {
  facts.setRange("s0", 2, INT64_MAX);
  facts.setRange("s1", 2, INT64_MAX);
  facts.setDivisor("s0", 16);
  EXPECT_EQ(facts.lessEqual(parse("s0 + s1"), parse("s0*s1")), Proof::Yes);
  EXPECT_EQ(facts.lessEqual(parse("s0"), parse("s0**2")), Proof::Yes);
  EXPECT_EQ(facts.less(parse("s0*s1"), parse("s0")), Proof::No);
  EXPECT_EQ(facts.lessEqual(parse("Min(s0, 8)"), parse("s0")), Proof::Yes);
  EXPECT_EQ(facts.lessEqual(parse("Max(s0, s1) + 1"), parse("s0 + s1")), Proof::Yes);
  EXPECT_EQ(facts.equal(parse("2*s1"), parse("7")), Proof::No);
  EXPECT_EQ(facts.equal(parse("s0"), parse("s1")), Proof::Unknown);
  EXPECT_EQ(facts.equal(parse("s0"), parse("s0 + 1")), Proof::No);
  EXPECT_EQ(facts.divides(parse("8"), parse("s0*s1")), Proof::Yes);
  EXPECT_EQ(facts.divides(parse("8"), parse("s0*s1 + 4")), Proof::No);
  EXPECT_EQ(facts.divides(parse("s1"), parse("s0*s1")), Proof::Yes);
  EXPECT_EQ(facts.divides(parse("3"), parse("s1")), Proof::Unknown);
  expectSimplified("(s0//8)*8", "s0");
  expectSimplified("Mod(s0*s1 + 3, 8)", "3");
  facts.erase("s0");
  EXPECT_FALSE(facts.knows("s0"));
  EXPECT_EQ(facts.divides(parse("8"), parse("s0*s1")), Proof::Unknown);
}

TEST_F(SizeExprTest, EstimatesSaturate) {
  facts.setHint("s0", 100);
  EXPECT_EQ(facts.estimate(parse("s0*3 + s0//7")), 314);
  EXPECT_EQ(facts.estimate(parse("s1"), 32), 32);
  EXPECT_EQ(facts.estimate(parse("s0**32")), INT64_MAX);
  EXPECT_EQ(facts.estimate(parse("s0//(s0 - 100)")), 100);
}

} // namespace
