// erf and erfc of f64 for registers of 512 bits. Polynomials are minimax fits (Remez' exchange at 60 digits); where
// the rounding of a coefficient counts, it has a low part or the coefficients of higher degree are fitted to its
// rounded value.

#include "compiler/codegen/common/MathBuilder.h"

using namespace mlir;

namespace torch_tile::codegen {

/// erf(x) = x + x * P(x^2) for |x| < 1.06; by relative error.
static Value erfTailOfSmall(MathBuilder &b, Value square) {
  return b.polynomial(square,
                      {5.6185007866528391e-11, -1.11651016024883947e-9, 1.46040315296382418e-8, -1.63417225048694358e-7,
                       1.64601613173561594e-6, -0.0000149255411473965818, 0.000120553287847737733,
                       -0.000854832691502701277, 0.00522397762363926764, -0.0268661706449523467, 0.112837916709542007,
                       -0.376126389031837336, 0.128379167095512573});
}

/// |x| < 1.05: see above. Else 1 - Q(|x|)^4, Q a fit of erfc^(1/4), weighted by the error of its power: see erfF32.
static Value erfF64OfRegister(MathBuilder &b, Value x) {
  Value a = b.abs(x);
  Value small = b.fma(a, erfTailOfSmall(b, b.mul(a, a)), a);
  Value q =
      b.polynomial(b.clampAbove(a, 6.0),
                   {-2.0697418942362407e-15, 9.128660990093501e-14,   -1.5280919199117688e-12, 7.352962860518705e-12,
                    1.440511288520726e-10,   -3.1428476057347148e-09, 3.0553354481460736e-08,  -1.821993185334041e-07,
                    7.192659893778894e-07,   -2.0460871534789557e-06, 5.1344591689905e-06,     -1.0716237997314753e-05,
                    -4.81001503057252e-06,   7.931472313712746e-05,   0.00027426116469907294,  -0.002007678362208518,
                    -0.0011708278282169652,  0.01859383831490585,     0.01547758579003129,     -0.11937124481667978,
                    -0.2820937635075291,     0.9999999016791401});
  q = b.mul(q, q);
  Value large = b.fma(b.neg(q), q, b.fp(1.0));
  return b.copySign(b.select(b.less(a, b.fp(1.05)), small, large), x);
}

/// |x| < 0.5: 1 - erf(x). Else e^(-a^2) * P(t) / (a + 3) for a = |x|, t = (a - 3) / (a + 3), P a fit of
/// (a + 3) e^(a^2) erfc(a) by relative error from 0.49 to 27.3, of which erfc rounds to 0: see erfcF32.
static Value erfcF64OfRegister(MathBuilder &b, Value x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0, kLn2High = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
  constexpr double kP0 = 1.0740069070883398, kP1 = -0.8833944531698836;
  constexpr double kP0Low = -8.94e-17, kP1Low = -1.92e-17;
  Value a = b.clampAbove(b.abs(x), 27.3);
  Value sum = b.add(a, b.fp(3.0)), sumLost = b.sub(a, b.sub(sum, b.fp(3.0)));
  Value quotient = b.div(b.fp(1.0), sum);
  // By how much of itself the quotient is too small.
  Value lack = b.fma(b.neg(quotient), sumLost, b.fma(b.neg(quotient), sum, b.fp(1.0)));
  Value t = b.sub(b.fp(1.0), b.mul(quotient, b.fp(6.0)));
  Value tLost = b.fma(quotient, b.fp(-6.0), b.sub(b.fp(1.0), t));
  Value rest = b.polynomial(
      t, {-6.01129734390294439e-9,  -3.34915574795785229e-9,   4.76952719815630484e-8,   4.90440816471858258e-8,
          -2.31679807134555139e-7,  -4.10148714232095831e-7,   9.98310664631257473e-7,   2.76637799200144321e-6,
          -4.74918467898607583e-6,  -0.0000174708521984787978, 0.0000303981955615091156, 0.000107561540573060977,
          -0.000276777857568020437, -0.000548309698338502887,  0.00303406200279416637,   -0.0012124166267141993,
          -0.0268272346245857878,   0.119527761287270293,      -0.310467261900564491,    0.590228357104102157});
  Value tail = b.fma(rest, t, b.fp(kP1)), tailLost = b.fma(rest, t, b.sub(b.fp(kP1), tail));
  Value p = b.fma(tail, t, b.fp(kP0)), pLost = b.fma(tail, t, b.sub(b.fp(kP0), p));
  pLost = b.add(b.fma(tailLost, t, pLost), b.fma(t, b.fp(kP1Low), b.fp(kP0Low)));
  // -a^2 = n*ln2 + r; the first step is exact.
  Value square = b.mul(a, a), squareLost = b.fma(a, a, b.neg(square));
  Value n = math::RoundEvenOp::create(b, b.mul(square, b.fp(-kLog2E)));
  Value low = b.fma(n, b.fp(-kLn2Low), b.neg(squareLost));
  Value high = b.fma(n, b.fp(-kLn2High), b.neg(square)), r = b.add(high, low), rLost = b.sub(low, b.sub(r, high));
  Value expm1 = b.polynomial(r, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5});
  Value rSquare = b.mul(r, r), curved = expm1;
  expm1 = b.fma(curved, rSquare, r);
  Value expm1Lost = b.fma(curved, rSquare, b.sub(r, expm1));
  Value product = b.fma(p, expm1, p), productLost = b.fma(p, expm1, b.sub(p, product));
  productLost = b.add(productLost, b.fma(p, expm1Lost, b.fma(pLost, expm1, pLost)));
  Value large = b.mul(product, quotient);
  rest = b.fma(productLost, quotient, b.fma(product, quotient, b.neg(large)));
  // An error of t, -6 * quotient * lack and what its rounding lost, changes P by about -0.47 - 2.2 * quotient of
  // itself.
  lack = b.fma(lack, b.fma(quotient, b.fp(5.2), b.fp(1.0)), rLost);
  lack = b.fma(tLost, b.fma(quotient, b.fp(-2.2), b.fp(-0.47)), lack);
  large = b.add(large, b.fma(large, lack, rest));
  // False beyond the last subnormal result, for which the scaling would be slow.
  Value kept = b.compare(arith::CmpFPredicate::ULT, a, b.fp(27.3));
  large = b.scaleByPower(large, n, kept);
  large = b.select(b.less(x, b.fp(0.0)), b.sub(b.fp(2.0), large), large);
  Value first = b.sub(b.fp(1.0), x), firstLost = b.sub(b.sub(b.fp(1.0), first), x);
  Value small = b.add(first, b.fma(b.neg(x), erfTailOfSmall(b, square), firstLost));
  return b.select(b.less(a, b.fp(0.5)), small, large);
}

/// One function for all registers, and all calls: by Horner's rule of so many coefficients, several at once need more
/// registers than there are, and code grows.
static Value callByRegister(MathBuilder &b, Value x, StringRef stem, Value (*ofRegister)(MathBuilder &, Value)) {
  return b.isVector() ? b.callOutlinedByRegister(stem, x, ofRegister) : ofRegister(b, x);
}

Value erfF64(MathBuilder &b, Value x) { return callByRegister(b, x, "erff64_", erfF64OfRegister); }
Value erfcF64(MathBuilder &b, Value x) { return callByRegister(b, x, "erfcf64_", erfcF64OfRegister); }

} // namespace torch_tile::codegen
