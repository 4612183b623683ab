// Pointwise ops. A new op is one line here and one in transforms/ScalarOps.cpp.
#ifndef TORCH_TILE_POINTWISE_OPS_TD
#define TORCH_TILE_POINTWISE_OPS_TD

include "compiler/graph/ir/NamedOp.td"

class Graph_PointwiseOp<string mnemonic, string summaryText> : Graph_NamedOp<mnemonic, summaryText, [Graph_PointwiseTrait]>;

class Graph_UnaryOp<string mnemonic, string summaryText> : Graph_PointwiseOp<mnemonic, summaryText> {
  let arguments = (ins Graph_Tensor:$x);
}
class Graph_BinaryOp<string mnemonic, string summaryText> : Graph_PointwiseOp<mnemonic, summaryText> {
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b);
}

//===-- unary, float --------------------------------------------------------------------------------------------===//
// f16 and bf16 compute in f32 and round once.

def Graph_ExpOp : Graph_UnaryOp<"exp", "e^x">;
def Graph_Exp2Op : Graph_UnaryOp<"exp2", "2^x">;
def Graph_Expm1Op : Graph_UnaryOp<"expm1", "e^x - 1, accurate near 0">;
def Graph_LogOp : Graph_UnaryOp<"log", "ln(x)">;
def Graph_Log2Op : Graph_UnaryOp<"log2", "log2(x)">;
def Graph_Log10Op : Graph_UnaryOp<"log10", "log10(x)">;
def Graph_Log1pOp : Graph_UnaryOp<"log1p", "ln(1 + x), accurate near 0">;
def Graph_SqrtOp : Graph_UnaryOp<"sqrt", "sqrt(x)">;
def Graph_RsqrtOp : Graph_UnaryOp<"rsqrt", "1 / sqrt(x)">;
def Graph_ReciprocalOp : Graph_UnaryOp<"reciprocal", "1 / x">;
def Graph_SinOp : Graph_UnaryOp<"sin", "sin(x)">;
def Graph_CosOp : Graph_UnaryOp<"cos", "cos(x)">;
def Graph_TanOp : Graph_UnaryOp<"tan", "tan(x)">;
def Graph_AsinOp : Graph_UnaryOp<"asin", "asin(x)">;
def Graph_AcosOp : Graph_UnaryOp<"acos", "acos(x)">;
def Graph_AtanOp : Graph_UnaryOp<"atan", "atan(x)">;
def Graph_SinhOp : Graph_UnaryOp<"sinh", "sinh(x)">;
def Graph_CoshOp : Graph_UnaryOp<"cosh", "cosh(x)">;
def Graph_TanhOp : Graph_UnaryOp<"tanh", "tanh(x)">;
def Graph_AsinhOp : Graph_UnaryOp<"asinh", "asinh(x)">;
def Graph_AcoshOp : Graph_UnaryOp<"acosh", "acosh(x)">;
def Graph_AtanhOp : Graph_UnaryOp<"atanh", "atanh(x)">;
def Graph_ErfOp : Graph_UnaryOp<"erf", "2/sqrt(pi) * integral of exp(-t*t) from 0 to x">;
def Graph_ErfcOp : Graph_UnaryOp<"erfc", "1 - erf(x), accurate for large x">;
def Graph_SigmoidOp : Graph_UnaryOp<"sigmoid", "1 / (1 + exp(-x))">;

//===-- unary, any element type ---------------------------------------------------------------------------------===//

def Graph_NegOp : Graph_UnaryOp<"neg", "-x; integers wrap">;
def Graph_AbsOp : Graph_UnaryOp<"abs", "|x|; the smallest integer stays">;
def Graph_SignOp : Graph_UnaryOp<"sign", "(0 < x) - (x < 0); 0 for NaN">;
def Graph_FloorOp : Graph_UnaryOp<"floor", "largest integer <= x">;
def Graph_CeilOp : Graph_UnaryOp<"ceil", "smallest integer >= x">;
def Graph_RoundOp : Graph_UnaryOp<"round", "nearest integer, halves to even">;
def Graph_TruncOp : Graph_UnaryOp<"trunc", "x rounded towards 0">;
def Graph_ReluOp : Graph_UnaryOp<"relu", "max(x, 0); NaN stays">;
def Graph_BitwiseNotOp : Graph_UnaryOp<"bitwise_not", "~x; not for bool">;
def Graph_LogicalNotOp : Graph_UnaryOp<"logical_not", "x == 0">;
def Graph_IsnanOp : Graph_UnaryOp<"isnan", "x != x">;
def Graph_IsinfOp : Graph_UnaryOp<"isinf", "|x| == inf">;

//===-- binary --------------------------------------------------------------------------------------------------===//
// Integers wrap. ATen raises for an integer divisor of 0; here the quotient is then the dividend and the remainder 0.

def Graph_AddOp : Graph_BinaryOp<"add", "a + b; or for bool">;
def Graph_SubOp : Graph_BinaryOp<"sub", "a - b">;
def Graph_MulOp : Graph_BinaryOp<"mul", "a * b; and for bool">;
def Graph_DivOp : Graph_BinaryOp<"div", "a / b of floats">;
def Graph_DivFloorOp : Graph_BinaryOp<"div_floor", "floor(a / b); for floats of the exact quotient">;
def Graph_DivTruncOp : Graph_BinaryOp<"div_trunc", "trunc(a / b)">;
def Graph_RemainderOp : Graph_BinaryOp<"remainder", "a - b * floor(a / b): the divisor's sign">;
def Graph_FmodOp : Graph_BinaryOp<"fmod", "a - b * trunc(a / b): the dividend's sign">;
def Graph_PowOp : Graph_BinaryOp<"pow", "a^b">;
def Graph_Atan2Op : Graph_BinaryOp<"atan2", "angle of the point (b, a)">;
def Graph_MaximumOp : Graph_BinaryOp<"maximum", "max(a, b); NaN if either is">;
def Graph_MinimumOp : Graph_BinaryOp<"minimum", "min(a, b); NaN if either is">;
def Graph_CopysignOp : Graph_BinaryOp<"copysign", "|a| with the sign of b">;
def Graph_BitwiseAndOp : Graph_BinaryOp<"bitwise_and", "a & b">;
def Graph_BitwiseOrOp : Graph_BinaryOp<"bitwise_or", "a | b">;
def Graph_BitwiseXorOp : Graph_BinaryOp<"bitwise_xor", "a ^ b">;
def Graph_ShiftLeftOp : Graph_BinaryOp<"shift_left", "a << b; 0 where b is not in [0, bits)">;
def Graph_ShiftRightOp : Graph_BinaryOp<"shift_right", "a >> b, arithmetic; all sign bits where b is not in [0, bits)">;
def Graph_LogicalAndOp : Graph_BinaryOp<"logical_and", "a != 0 and b != 0">;
def Graph_LogicalOrOp : Graph_BinaryOp<"logical_or", "a != 0 or b != 0">;
def Graph_LogicalXorOp : Graph_BinaryOp<"logical_xor", "(a != 0) != (b != 0)">;

//===-- comparisons, to i1 --------------------------------------------------------------------------------------===//

def Graph_EqOp : Graph_BinaryOp<"eq", "a == b">;
def Graph_NeOp : Graph_BinaryOp<"ne", "a != b; true for NaN">;
def Graph_LtOp : Graph_BinaryOp<"lt", "a < b">;
def Graph_LeOp : Graph_BinaryOp<"le", "a <= b">;
def Graph_GtOp : Graph_BinaryOp<"gt", "a > b">;
def Graph_GeOp : Graph_BinaryOp<"ge", "a >= b">;

//===-- others --------------------------------------------------------------------------------------------------===//

def Graph_WhereOp : Graph_PointwiseOp<"where", "condition ? a : b"> {
  let arguments = (ins Graph_Tensor:$condition, Graph_Tensor:$a, Graph_Tensor:$b);
}
def Graph_FmaOp : Graph_PointwiseOp<"fma", "a * b + c, for floats rounded once"> {
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b, Graph_Tensor:$c);
}
def Graph_CastOp : Graph_UnaryOp<"cast", "x as the result's element type"> {
  let description = [{
    Follows ATen on x86: float to integer truncates, and gives the smallest value of the integer (of i32 or i64 for narrower ones, truncated) for NaN and out of range;
    to bool is x != 0; f64 and integers reach f16 and bf16 through f32.
  }];
}
def Graph_GeluOp : Graph_UnaryOp<"gelu", "x * Phi(x)"> {
  let description = [{
    `none`: x/2 * (1 + erf(x / sqrt(2))). `tanh`: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))).
  }];
  let arguments = (ins Graph_Tensor:$x, DefaultValuedAttr<StrAttr, "\"none\"">:$approximate);
}

#endif
