// erf and erfc of f64 for registers of 512 bits. Polynomials are minimax fits (Remez' exchange at 60 digits).

#include "compiler/codegen/common/MathBuilder.h"

using namespace mlir;

namespace torch_tile::codegen {

/// erf(x) = x + x * P(x^2) for |x| < 1.26; by relative error.
static Value erfTailOfSmall(MathBuilder &b, Value square) {
  return b.polynomial(square, {-3.22468493881336019e-12, 7.89991630565994412e-11, -1.18719455891055268e-9,
                               1.47297963874536357e-8, -1.63558735025342147e-7, 1.64612050706207909e-6,
                               -0.0000149255916029708289, 0.00012055330324431999, -0.000854832694157541309,
                               0.00522397762380240977, -0.0268661706449338644, 0.112837916709538814,
                               -0.376126389031837214, 0.128379167095512573});
}

/// |x| < 1.25: see above. Else 1 - Q(|x|)^4, Q a fit of erfc^(1/4), weighted by the error of its power: see erfF32.
Value erfF64(MathBuilder &b, Value x) {
  Value a = b.abs(x);
  Value small = b.fma(a, erfTailOfSmall(b, b.mul(a, a)), a);
  Value q = b.polynomial(
      b.clampAbove(a, 6.0),
      {1.80660802245213378e-16,  -4.30369266635087454e-14,  2.24222277892607574e-12,  -5.88320149980092074e-11,
       9.59171063393936317e-10,  -1.06319808637529359e-8,   8.38377640172454574e-8,   -4.82983665919107451e-7,
       2.08830791304265687e-6,   -7.12427711402089997e-6,   0.0000205856723610194362, -0.0000494006723000454988,
       0.0000748898071697941154, -0.0000554022131615070381, 0.000459894112304150101,  -0.00221402005809535433,
       -0.000988751435263645023, 0.0184693343956749432,     0.0155411511947873656,    -0.119394035422717153,
       -0.282088647619851484,    0.999999360986802369});
  q = b.mul(q, q);
  Value large = b.fma(b.neg(q), q, b.fp(1.0));
  return b.copySign(b.select(b.less(a, b.fp(1.25)), small, large), x);
}

/// |x| < 0.5: 1 - erf(x). Else e^(-a^2) * P(t) / (a + 3) for a = |x|, t = (a - 3) / (a + 3), P a fit of
/// (a + 3) e^(a^2) erfc(a) by relative error from 0.49 to 27.3, of which erfc rounds to 0: see erfcF32.
Value erfcF64(MathBuilder &b, Value x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0, kLn2High = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
  constexpr double kP0 = 1.0740069070883397;
  Value a = b.clampAbove(b.abs(x), 27.3);
  Value sum = b.add(a, b.fp(3.0)), sumLost = b.sub(a, b.sub(sum, b.fp(3.0)));
  Value quotient = b.div(b.fp(1.0), sum);
  // By how much of itself the quotient is too small.
  Value lack = b.fma(b.neg(quotient), sumLost, b.fma(b.neg(quotient), sum, b.fp(1.0)));
  Value t = b.fma(quotient, b.fp(-6.0), b.fp(1.0));
  Value tail = b.polynomial(t, {-6.01129734390294439e-9,   -3.34915574795785229e-9,  4.76952719815630484e-8,
                                4.90440816471858258e-8,    -2.31679807134555139e-7,  -4.10148714232095831e-7,
                                9.98310664631257473e-7,    2.76637799200144321e-6,   -4.74918467898607583e-6,
                                -0.0000174708521984787978, 0.0000303981955615091156, 0.000107561540573060977,
                                -0.000276777857568020437,  -0.000548309698338502887, 0.00303406200279416637,
                                -0.0012124166267141993,    -0.0268272346245857878,   0.119527761287270293,
                                -0.310467261900564491,     0.590228357104102157,     -0.88339445316988365});
  Value p = b.fma(tail, t, b.fp(kP0)), pLost = b.fma(tail, t, b.sub(b.fp(kP0), p));
  // -a^2 = n*ln2 + r; the first step is exact.
  Value square = b.mul(a, a), squareLost = b.fma(a, a, b.neg(square));
  Value n = math::RoundEvenOp::create(b, b.mul(square, b.fp(-kLog2E)));
  Value low = b.fma(n, b.fp(-kLn2Low), b.neg(squareLost));
  Value r = b.add(b.fma(n, b.fp(-kLn2High), b.neg(square)), low);
  Value expm1 = b.polynomial(r, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5});
  expm1 = b.fma(expm1, b.mul(r, r), r);
  Value product = b.fma(p, expm1, p), productLost = b.add(b.fma(p, expm1, b.sub(p, product)), pLost);
  Value large = b.mul(product, quotient);
  Value rest = b.fma(productLost, quotient, b.fma(product, quotient, b.neg(large)));
  // The error of t, 6 * quotient * lack, changes P by about -0.87 of itself.
  lack = b.mul(lack, b.fma(quotient, b.fp(5.2), b.fp(1.0)));
  large = b.add(large, b.fma(large, lack, rest));
  // False beyond the last subnormal result, for which the scaling would be slow.
  Value kept = b.compare(arith::CmpFPredicate::ULT, a, b.fp(27.3));
  large = b.scaleByPower(large, n, kept);
  large = b.select(b.less(x, b.fp(0.0)), b.sub(b.fp(2.0), large), large);
  Value first = b.sub(b.fp(1.0), x), firstLost = b.sub(b.sub(b.fp(1.0), first), x);
  Value small = b.add(first, b.fma(b.neg(x), erfTailOfSmall(b, square), firstLost));
  return b.select(b.less(a, b.fp(0.5)), small, large);
}

} // namespace torch_tile::codegen
