// Functions in f64, inline, for targets that have no library to call: f64 itself to a few ulp, and f32 rounded from it.

#include "compiler/codegen/common/MathBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/StringSwitch.h"

#include <array>
#include <limits>

using namespace mlir;

namespace torch_tile::codegen {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double ln2High = 0x1.62e42fefa39efp-1, ln2Low = 0x1.abc9e3b39803fp-56, log2E = 0x1.71547652b82fep+0;
constexpr double halfPi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
constexpr double pi = 0x1.921fb54442d18p+1;

/// Expands into f64 operations on values of one shape.
class Wide {
public:
  explicit Wide(MathBuilder &b) : b(b), i64Element(b.getI64Type()) {}

  Value call(StringRef name, ValueRange x) {
    return llvm::StringSwitch<std::function<Value()>>(name)
        .Case("exp", [&] { return exp(x[0]); })
        .Case("exp2", [&] { return exp2(x[0]); })
        .Case("expm1", [&] { return expm1(x[0]); })
        .Case("log", [&] { return log(x[0]); })
        .Case("log2", [&] { return scaledLog(x[0], log2E, 1.0); })
        .Case("log10", [&] { return scaledLog(x[0], 0x1.bcb7b1526e50ep-2, 0x1.34413509f79ffp-2); })
        .Case("log1p", [&] { return log1p(x[0]); })
        .Case("tanh", [&] { return tanh(x[0]); })
        .Case("sinh", [&] { return sinh(x[0]); })
        .Case("cosh", [&] { return cosh(x[0]); })
        .Case("asinh", [&] { return asinh(x[0]); })
        .Case("acosh", [&] { return acosh(x[0]); })
        .Case("atanh", [&] { return atanh(x[0]); })
        .Case("erf", [&] { return erf(x[0]); })
        .Case("erfc", [&] { return erfc(x[0]); })
        .Case("sin", [&] { return trig(x[0], Trig::Sin); })
        .Case("cos", [&] { return trig(x[0], Trig::Cos); })
        .Case("tan", [&] { return trig(x[0], Trig::Tan); })
        .Case("asin", [&] { return asin(x[0]); })
        .Case("acos", [&] { return acos(x[0]); })
        .Case("atan", [&] { return b.copySign(atanOfPositive(b.abs(x[0])), x[0]); })
        .Case("atan2", [&] { return atan2(x[0], x[1]); })
        .Case("pow", [&] { return pow(x[0], x[1]); })
        .Case("cbrt", [&] { return cbrt(x[0]); })
        .Default([] { return Value(); })();
  }

private:
  Value fp(double value) { return b.fp(value); }
  Value i64(int64_t value) { return b.bits(i64Element, uint64_t(value)); }
  Value bitsOf(Value x) { return b.bitcast(b.shaped(i64Element), x); }
  Value fromBits(Value x) { return b.bitcast(b.shaped(b.getF64Type()), x); }
  Value floor(Value x) { return math::FloorOp::create(b, x); }
  Value rint(Value x) { return math::RoundEvenOp::create(b, x); }
  Value sqrt(Value x) { return math::SqrtOp::create(b, x); }
  Value greater(Value x, double limit) { return b.compare(arith::CmpFPredicate::OGT, x, fp(limit)); }
  Value atLeast(Value x, double limit) { return b.compare(arith::CmpFPredicate::OGE, x, fp(limit)); }
  Value select(Value condition, Value x, double y) { return b.select(condition, x, fp(y)); }
  /// An integer in a float, small or NaN.
  Value toInteger(Value x) {
    Value safe = b.select(b.isNan(x), fp(0), x);
    return arith::FPToSIOp::create(b, b.shaped(i64Element), safe);
  }
  /// x * 2^n for n of twice the range of exponents.
  Value scale(Value x, Value n) {
    Value half = b.shrs(n, i64(1)), rest = b.subI(n, half);
    auto power = [&](Value k) { return fromBits(b.shl(b.addI(k, i64(1023)), i64(52))); };
    return b.mul(b.mul(x, power(half)), power(rest));
  }

  /// (e^r - 1) / r for |r| <= ln2 / 2.
  Value expTail(Value r) {
    return b.polynomial(r, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                            1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0});
  }
  std::pair<Value, Value> reduceExp(Value x) {
    Value n = rint(b.mul(x, fp(log2E)));
    return {n, b.fma(n, fp(-ln2Low), b.fma(n, fp(-ln2High), x))};
  }
  Value exp(Value x) {
    x = b.clampBelow(b.clampAbove(x, 711), -760);
    auto [n, r] = reduceExp(x);
    return scale(b.fma(expTail(r), r, fp(1)), toInteger(n));
  }
  Value exp2(Value x) {
    x = b.clampBelow(b.clampAbove(x, 1025), -1090);
    Value n = rint(x), r = b.mul(b.sub(x, n), fp(ln2High));
    return scale(b.fma(expTail(r), r, fp(1)), toInteger(n));
  }
  Value expm1(Value x) {
    Value isSmall = b.less(b.abs(x), fp(0.34));
    Value small = b.mul(expTail(b.select(isSmall, x, fp(0))), x);
    return b.select(isSmall, small, b.sub(exp(x), fp(1)));
  }

  /// Exponent, and the logarithm of a fraction in [sqrt(1/2), sqrt(2)), of a positive number.
  std::pair<Value, Value> splitLog(Value x) {
    Value isSubnormal = b.less(x, fp(std::numeric_limits<double>::min()));
    x = b.select(isSubnormal, b.mul(x, fp(0x1p54)), x);
    Value bits = bitsOf(x), shifted = b.subI(bits, i64(0x3fe6a09e667f3bcd));
    Value exponent = b.shrs(shifted, i64(52));
    Value fraction = fromBits(b.subI(bits, b.shl(exponent, i64(52))));
    exponent = b.subI(exponent, b.select(isSubnormal, i64(54), i64(0)));
    Value f = b.sub(fraction, fp(1)), s = b.div(f, b.add(f, fp(2))), z = b.mul(s, s);
    Value tail = b.polynomial(z, {2.0 / 25, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11,
                                  2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3});
    Value value = b.fma(b.mul(tail, z), s, b.mul(s, fp(2)));
    return {arith::SIToFPOp::create(b, b.floatType(), exponent), value};
  }
  Value logEdges(Value x, Value value) {
    value = b.select(b.equal(x, fp(infinity)), x, value);
    value = b.select(b.equal(x, fp(0)), fp(-infinity), value);
    return b.select(atLeast(x, 0), value, fp(std::numeric_limits<double>::quiet_NaN()));
  }
  Value log(Value x) {
    auto [e, f] = splitLog(x);
    return logEdges(x, b.fma(e, fp(ln2High), b.fma(e, fp(ln2Low), f)));
  }
  /// To another base: exact for its powers of two where a step of the exponent is.
  Value scaledLog(Value x, double ofE, double ofTwo) {
    auto [e, f] = splitLog(x);
    return logEdges(x, b.fma(e, fp(ofTwo), b.mul(f, fp(ofE))));
  }
  /// The rounding of 1 + x is made good by the quotient.
  Value log1p(Value x) {
    Value u = b.add(x, fp(1)), d = b.sub(u, fp(1));
    Value isTiny = b.equal(d, fp(0));
    Value value = b.mul(log(u), b.div(x, b.select(isTiny, fp(1), d)));
    value = b.select(isTiny, x, value);
    return b.select(b.equal(x, fp(infinity)), x, value);
  }

  Value tanh(Value x) {
    Value t = expm1(b.mul(b.abs(x), fp(-2)));
    return b.copySign(b.div(t, b.add(t, fp(2))), x);
  }
  Value sinh(Value x) {
    Value a = b.abs(x), isLarge = greater(a, 1);
    Value t = expm1(b.select(isLarge, fp(0), a));
    Value small = b.mul(b.add(t, b.div(t, b.add(t, fp(1)))), fp(0.5));
    Value e = exp(b.mul(a, fp(0.5))), half = b.mul(e, fp(0.5));
    Value large = b.sub(b.mul(half, e), b.div(b.div(fp(0.5), e), e));
    return b.copySign(b.select(isLarge, large, small), x);
  }
  Value cosh(Value x) {
    Value e = exp(b.mul(b.abs(x), fp(0.5)));
    return b.add(b.mul(b.mul(e, fp(0.5)), e), b.div(b.div(fp(0.5), e), e));
  }
  Value asinh(Value x) {
    Value a = b.abs(x), isLarge = greater(a, 0x1p500), square = b.mul(a, a);
    Value small = log1p(b.add(a, b.div(square, b.add(sqrt(b.add(square, fp(1))), fp(1)))));
    return b.copySign(b.select(isLarge, b.add(log(a), fp(ln2High)), small), x);
  }
  Value acosh(Value x) {
    Value isLarge = greater(x, 0x1p500), t = b.sub(x, fp(1));
    Value small = log1p(b.add(t, sqrt(b.mul(t, b.add(t, fp(2))))));
    Value value = b.select(isLarge, b.add(log(x), fp(ln2High)), small);
    return b.select(atLeast(x, 1), value, fp(std::numeric_limits<double>::quiet_NaN()));
  }
  Value atanh(Value x) {
    Value a = b.abs(x);
    return b.copySign(b.mul(log1p(b.div(b.mul(a, fp(2)), b.sub(fp(1), a))), fp(0.5)), x);
  }

  //===-- error function ----------------------------------------------------------------------------------------===//

  Value erfOfSmall(Value x) {
    return b.mul(x,
                 b.polynomial(b.mul(x, x), {5.957176147748911404e-11, -1.137284885679167367e-9, 1.465977527404743581e-8,
                                            -1.635031270105469501e-7, 1.646100048412136803e-6,
                                            -0.00001492559526683118157, 0.0001205533111164271092,
                                            -0.0008548326980833789905, 0.005223977624818014467, -0.02686617064507679325,
                                            0.1128379167095487867, -0.3761263890318374806, 1.128379167095512574}));
  }
  /// For x >= 1: e^(-x^2) / (x + 1) times a polynomial.
  Value erfcOfLarge(Value x) {
    x = b.clampAbove(x, 30);
    Value t = b.div(b.sub(x, fp(3)), b.add(x, fp(3)));
    Value p = b.polynomial(
        t, {4.118807052793681964e-8,   -2.088061555384856324e-7,   3.733746724709723032e-7,   -1.908547993560488194e-7,
            -2.00583527852651157e-7,   3.293947177857460851e-7,    -3.331073507913807714e-7,  -1.271690969788400073e-7,
            1.670950332102139504e-6,   3.0407217587661889e-7,      -9.022672251424073088e-6,  -1.518792946657329373e-6,
            0.00005612598688902079051, -0.00002055163353695574257, -0.0003672892589912992201, 0.0006458142512271151118,
            0.001618569180949863567,   -0.009750689296910904099,   0.02195776401060564106,    -0.02380391310853385795,
            -0.01023538889897151591,   0.09902075367943863832,     -0.2309273330838094004,    0.7160046047255598034});
    Value square = b.mul(x, x), lost = b.fma(x, x, b.neg(square));
    Value e = exp(b.neg(square));
    return b.div(b.mul(b.fma(b.neg(lost), e, e), p), b.add(x, fp(1)));
  }
  Value erf(Value x) {
    Value a = b.abs(x), isSmall = b.less(a, fp(1));
    Value large = b.copySign(b.sub(fp(1), erfcOfLarge(a)), x);
    return b.select(isSmall, erfOfSmall(x), b.select(b.isNan(x), x, large));
  }
  Value erfc(Value x) {
    Value a = b.abs(x), isSmall = b.less(a, fp(1)), large = erfcOfLarge(a);
    large = b.select(b.less(x, fp(0)), b.sub(fp(2), large), large);
    return b.select(isSmall, b.sub(fp(1), erfOfSmall(x)), b.select(b.isNan(x), x, large));
  }

  //===-- circular functions ------------------------------------------------------------------------------------===//

  enum class Trig { Sin, Cos, Tan };

  /// |x| in quarter turns: how many (their last two bits count), and what is left, in [-pi/4, pi/4].
  std::pair<Value, Value> reduceTurns(Value a) {
    Value n = rint(b.mul(a, fp(2 / pi)));
    Value r = b.fma(n, fp(-halfPi[0]), a);
    r = b.fma(n, fp(-halfPi[1]), r);
    r = b.fma(n, fp(-halfPi[2]), r);
    // Beyond this the product has no bits left: exact in integers.
    Value isHuge = greater(a, 0x1p30);
    Value anyHuge = isHuge;
    if (b.isVector())
      anyHuge = vector::ReductionOp::create(b, vector::CombiningKind::OR, isHuge);
    Type integers = b.shaped(i64Element), floats = b.floatType();
    auto branch = scf::IfOp::create(b, TypeRange{integers, floats}, anyHuge, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&branch.getElseRegion().front());
    scf::YieldOp::create(b, ValueRange{toInteger(b.clampAbove(n, 0x1p40)), r});
    b.setInsertionPointToStart(&branch.getThenRegion().front());
    auto [hugeN, hugeR] = reduceHuge(a);
    scf::YieldOp::create(
        b, ValueRange{b.select(isHuge, hugeN, toInteger(b.clampAbove(n, 0x1p40))), b.select(isHuge, hugeR, r)});
    return {branch.getResult(0), branch.getResult(1)};
  }

  /// m * 2^q * 2/pi mod 4 for a mantissa m of 53 bits (Payne and Hanek 1983): of 2/pi only the bits from two before the
  /// point of the product on matter. Products keep 128 bits of them.
  std::pair<Value, Value> reduceHuge(Value a) {
    static constexpr std::array<uint64_t, 20> twoOverPi = {
        0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
        0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
        0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
        0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
    Value bits = bitsOf(a);
    Value mantissa = b.orI(b.andI(bits, i64((int64_t(1) << 52) - 1)), i64(int64_t(1) << 52));
    // Value of a = mantissa * 2^q; bit k of 2/pi (from 1) weighs 2^-k. The window starts at bit q - 1: weight 2 after
    // the shift.
    Value q = b.subI(b.andI(b.shru(bits, i64(52)), i64(0x7ff)), i64(1075));
    // Small q has zeros before the first bit: count from 64 bits earlier.
    Value start = b.addI(q, i64(62)), word = b.shru(start, i64(6)), shift = b.andI(start, i64(63));
    Value window[4];
    for (int k = 0; k < 4; ++k) {
      window[k] = i64(0);
      for (int j = 0; j <= 17; ++j) {
        int index = j + k - 1;
        if (index < 0 || index >= (int)twoOverPi.size())
          continue;
        Value isHere = b.compareI(arith::CmpIPredicate::eq, word, i64(j));
        window[k] = b.select(isHere, i64((int64_t)twoOverPi[index]), window[k]);
      }
    }
    Value isAligned = b.compareI(arith::CmpIPredicate::eq, shift, i64(0));
    auto funnel = [&](Value high, Value low) {
      Value safe = b.select(isAligned, i64(1), shift);
      Value mixed = b.orI(b.shl(high, safe), b.shru(low, b.subI(i64(64), safe)));
      return b.select(isAligned, high, mixed);
    };
    Value w0 = funnel(window[0], window[1]), w1 = funnel(window[1], window[2]), w2 = funnel(window[2], window[3]);
    // The top 128 bits of the low 192 of mantissa * (w0, w1, w2).
    auto wide = [&](Value w) {
      auto product = arith::MulUIExtendedOp::create(b, mantissa, w);
      return std::pair<Value, Value>(product.getLow(), product.getHigh());
    };
    auto [low1, high1] = wide(w1);
    Value high2 = wide(w2).second;
    Value low = b.addI(low1, high2);
    Value carry = b.select(b.compareI(arith::CmpIPredicate::ult, low, low1), i64(1), i64(0));
    Value high = b.addI(b.addI(b.mulI(mantissa, w0), high1), carry);
    // Two bits of quadrant, then the fraction; rounded to the nearest quadrant.
    Value quadrant = b.shru(high, i64(62));
    Value fractionHigh = b.orI(b.shl(high, i64(2)), b.shru(low, i64(62))), fractionLow = b.shl(low, i64(2));
    Value isUpper = b.compareI(arith::CmpIPredicate::slt, fractionHigh, i64(0));
    quadrant = b.addI(quadrant, b.select(isUpper, i64(1), i64(0)));
    // As signed numbers of 64 bits after the point, the fraction is in [-1/2, 1/2).
    Value top = arith::SIToFPOp::create(b, b.floatType(), fractionHigh);
    Value rest = b.subI(fractionHigh, arith::FPToSIOp::create(b, b.shaped(i64Element), top));
    Value tail = b.fma(arith::UIToFPOp::create(b, b.floatType(), fractionLow), fp(0x1p-64),
                       arith::SIToFPOp::create(b, b.floatType(), rest));
    top = b.mul(top, fp(0x1p-64));
    tail = b.mul(tail, fp(0x1p-64));
    Value r = b.fma(top, fp(halfPi[0]), b.fma(tail, fp(halfPi[0]), b.mul(top, fp(halfPi[1]))));
    return {quadrant, r};
  }

  Value trig(Value x, Trig kind) {
    Value a = b.abs(x), isFinite = b.less(a, fp(infinity));
    auto [n, r] = reduceTurns(b.select(isFinite, a, fp(0)));
    Value z = b.mul(r, r);
    Value sine = b.polynomial(z, {1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
                                  1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6});
    sine = b.fma(b.mul(sine, z), r, r);
    Value cosine = b.polynomial(z, {1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                                    1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5});
    cosine = b.fma(cosine, z, fp(1));
    auto bit = [&](Value value, int64_t mask) {
      return b.compareI(arith::CmpIPredicate::ne, b.andI(value, i64(mask)), i64(0));
    };
    Value result;
    Value isOdd = bit(n, 1);
    if (kind == Trig::Tan) {
      result = b.select(isOdd, b.neg(b.div(cosine, sine)), b.div(sine, cosine));
    } else {
      Value turns = kind == Trig::Cos ? b.addI(n, i64(1)) : n;
      result = b.select(bit(turns, 1), cosine, sine);
      result = b.select(bit(turns, 2), b.neg(result), result);
    }
    if (kind != Trig::Cos) // odd functions
      result = fromBits(b.xorI(bitsOf(result), b.andI(bitsOf(x), i64(std::numeric_limits<int64_t>::min()))));
    return b.select(isFinite, result, b.sub(x, x));
  }

  /// asin for |x| <= 1/2.
  Value asinOfSmall(Value x) {
    return b.mul(x, b.polynomial(b.mul(x, x), {0.03257934796692841998, -0.02093065831518244967, 0.02166805886905635856,
                                               0.003718057748325053914, 0.01077867512099599249, 0.01139885040844075583,
                                               0.01398088299217100972, 0.0173516006253434348, 0.02237221610607214638,
                                               0.03038194264232718612, 0.04464285717686321931, 0.07499999999966610596,
                                               0.1666666666666679547, 0.9999999999999999992}));
  }
  Value asin(Value x) {
    Value a = b.abs(x), isLarge = greater(a, 0.5);
    Value reduced = sqrt(b.mul(b.sub(fp(1), a), fp(0.5)));
    Value small = asinOfSmall(b.select(isLarge, reduced, a));
    Value large = b.add(b.fma(small, fp(-2), fp(halfPi[0])), fp(halfPi[1]));
    return b.copySign(b.select(isLarge, large, small), x);
  }
  Value acos(Value x) {
    Value a = b.abs(x), isLarge = greater(a, 0.5), isNegative = b.less(x, fp(0));
    Value reduced = sqrt(b.mul(b.sub(fp(1), a), fp(0.5)));
    Value small = asinOfSmall(b.select(isLarge, reduced, x));
    Value twice = b.mul(small, fp(2));
    Value large = b.select(isNegative, b.sub(fp(pi), twice), twice);
    return b.select(isLarge, large, b.sub(fp(halfPi[0]), b.sub(small, fp(halfPi[1]))));
  }
  Value atanOfPositive(Value a) {
    Value isLarge = greater(a, 1);
    Value x = b.select(isLarge, b.div(fp(1), a), a);
    Value isMiddle = greater(x, 0x1.a827999fcef34p-2); // tan(pi / 8)
    x = b.select(isMiddle, b.div(b.sub(x, fp(1)), b.add(x, fp(1))), x);
    Value value =
        b.mul(x, b.polynomial(b.mul(x, x), {-0.01780539720541944523, 0.03796525745386593624, -0.05035102456601551843,
                                            0.0584687829733087252, -0.06662951813629190088, 0.07692045330902224952,
                                            -0.09090896809064027076, 0.1111111074491965824, -0.1428571427925024494,
                                            0.1999999999994089146, -0.3333333333333312116, 0.9999999999999999987}));
    value = b.select(isMiddle, b.add(value, fp(pi / 4)), value);
    return b.select(isLarge, b.sub(fp(halfPi[0]), value), value);
  }
  Value atan2(Value y, Value x) {
    Value ay = b.abs(y), ax = b.abs(x), isSteep = b.less(ax, ay);
    Value low = b.select(isSteep, ax, ay), high = b.select(isSteep, ay, ax);
    Value ratio = b.div(low, high);
    ratio = b.select(b.equal(high, fp(0)), fp(0), ratio);
    ratio = b.select(b.equal(low, fp(infinity)), fp(1), ratio);
    Value value = atanOfPositive(ratio);
    value = b.select(isSteep, b.sub(fp(halfPi[0]), value), value);
    Value isLeft = b.compareI(arith::CmpIPredicate::slt, bitsOf(x), i64(0));
    value = b.select(isLeft, b.sub(fp(pi), value), value);
    value = b.copySign(value, y);
    return b.select(b.compare(arith::CmpFPredicate::UNO, x, y), b.add(x, y), value);
  }

  //===-- powers ------------------------------------------------------------------------------------------------===//

  /// The logarithm's error grows with the exponent: its low part is kept.
  Value pow(Value x, Value y) {
    Value a = b.abs(x);
    auto [e, f] = splitLog(a);
    // log = high + low: the exponent's part is exact in two, the fraction's is the small one.
    Value high = b.fma(e, fp(ln2High), f), lost = b.fma(e, fp(ln2High), b.neg(high));
    Value low = b.fma(e, fp(ln2Low), b.add(lost, f));
    high = logEdges(a, high);
    Value isOrdinary = b.less(b.abs(high), fp(infinity));
    Value product = b.mul(y, high), rest = b.fma(y, high, b.neg(product));
    rest = b.fma(y, low, rest);
    Value isCorrected = b.andI(isOrdinary, b.less(b.abs(product), fp(1e6)));
    Value magnitude = exp(product);
    magnitude = b.select(isCorrected, b.fma(magnitude, rest, magnitude), magnitude);
    magnitude = b.select(b.equal(exp(product), fp(infinity)), fp(infinity), magnitude);
    magnitude = b.select(b.equal(a, fp(1)), fp(1), magnitude);

    Value half = b.mul(y, fp(0.5));
    Value isInteger = b.equal(floor(y), y);
    Value isOdd = b.andI(b.andI(isInteger, b.compare(arith::CmpFPredicate::UNE, floor(half), half)),
                         b.less(b.abs(y), fp(0x1p53)));
    Value isNegative = b.compareI(arith::CmpIPredicate::slt, bitsOf(x), i64(0));
    Value result = b.select(b.andI(isNegative, isOdd), b.neg(magnitude), magnitude);
    Value isUndefined = b.andI(b.andI(b.less(x, fp(0)), b.compare(arith::CmpFPredicate::UNE, floor(y), y)),
                               b.andI(b.less(a, fp(infinity)), b.less(b.abs(y), fp(infinity))));
    result = b.select(isUndefined, fp(std::numeric_limits<double>::quiet_NaN()), result);
    result = b.select(b.compare(arith::CmpFPredicate::UNO, x, y), b.add(x, y), result);
    result = b.select(b.equal(x, fp(1)), fp(1), result);
    return b.select(b.equal(y, fp(0)), fp(1), result);
  }
  Value cbrt(Value x) {
    Value a = b.abs(x), isSpecial = b.orI(b.equal(a, fp(0)), b.compare(arith::CmpFPredicate::UEQ, a, fp(infinity)));
    Value root = exp(b.mul(log(b.select(isSpecial, fp(1), a)), fp(1.0 / 3)));
    Value square = b.mul(root, root);
    root = b.sub(root, b.div(b.sub(root, b.div(b.select(isSpecial, fp(1), a), square)), fp(3)));
    return b.select(isSpecial, x, b.copySign(root, x));
  }

  MathBuilder &b;
  Type i64Element;
};

} // namespace

Value callWide(MathBuilder &b, StringRef stem, ValueRange operands) {
  Type given = b.floatType();
  bool isNarrow = b.elementType().isF32();
  SmallVector<Value> wide(operands);
  if (isNarrow) {
    Type f64 = b.shaped(b.getF64Type());
    for (Value &value : wide)
      value = arith::ExtFOp::create(b, f64, value);
    b.setShape(f64);
  }
  Value result = Wide(b).call(stem, wide);
  if (isNarrow) {
    b.setShape(given);
    if (result)
      result = arith::TruncFOp::create(b, given, result);
  }
  return result;
}

} // namespace torch_tile::codegen
