// erf of f32.

#include "compiler/codegen/common/MathBuilder.h"

using namespace mlir;

namespace torch_tile::codegen {

/// |x| < 0.9: x + x * P(x^2). Else 1 - 2^R(|x|), R a minimax fit of log2(erfc), weighted by erfc; its leading
/// coefficient is negative, so it needs no bound. Within 1.6 units in the last place.
static Value erfByInstruction(MathBuilder &b, Value x) {
  Value magnitude = b.abs(x), square = b.mul(x, x);
  Value p = b.polynomial(square, {-0.00061113, 0.00501623, -0.02678196, 0.1128223, -0.37612532, 0.12837916});
  Value small = b.fma(magnitude, p, magnitude);
  Value exponent = b.polynomial(magnitude, {-0.00180562, 0.0224758, -0.1314427, -0.9388415, -1.6160937, -0.00270888});
  Value large = b.sub(b.fp(1.0), b.instruction("ex2.approx.ftz.f32 $0, $1;", exponent));
  return b.copySign(b.select(b.less(magnitude, b.fp(0.9)), small, large), x);
}

/// |x| < 0.9: x + x * P(x^2). Else 1 - Q(|x|)^4, Q a minimax fit of erfc^(1/4): a power of a smooth, slowly falling
/// function takes a lower degree than erfc itself, and needs no exponential.
Value erfF32(MathBuilder &b, Value x) {
  if (!b.options().hasLibrary)
    return erfByInstruction(b, x);
  Value magnitude = b.abs(x);
  Value square = b.mul(magnitude, magnitude);
  Value p = b.polynomial(
      square, {8.51311119e-05, -0.000817564138, 0.00520385939, -0.0268605086, 0.11283715, -0.37612635, 0.128379167});
  Value small = b.fma(magnitude, p, magnitude);
  Value q = b.polynomial(b.clampAbove(magnitude, 4.0),
                         {1.10297159e-05, -0.000219161827, 0.00170383596, -0.00596306721, 0.00594592662, 0.0100103708,
                          0.0223613966, -0.122885002, -0.281065024, 0.999869208});
  q = b.mul(q, q);
  Value large = b.fma(b.neg(q), q, b.fp(1.0));
  return b.copySign(b.select(b.less(magnitude, b.fp(0.9)), small, large), x);
}

} // namespace torch_tile::codegen
