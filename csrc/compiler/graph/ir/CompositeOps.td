// Ops kept whole for patterns and explanations, then decomposed. Low-precision floats compute in f32 throughout and round once.
#ifndef TORCH_TILE_COMPOSITE_OPS_TD
#define TORCH_TILE_COMPOSITE_OPS_TD

include "compiler/graph/ir/NamedOp.td"

class Graph_SoftmaxLikeOp<string mnemonic, string summaryText> : Graph_NamedOp<mnemonic, summaryText, [Graph_CompositeTrait]> {
  let arguments = (ins Graph_Tensor:$x, I64Attr:$dim);
}
class Graph_SoftmaxBackwardLikeOp<string mnemonic, string summaryText> : Graph_NamedOp<mnemonic, summaryText, [Graph_CompositeTrait]> {
  let arguments = (ins Graph_Tensor:$grad, Graph_Tensor:$output, I64Attr:$dim);
}

def Graph_SoftmaxOp : Graph_SoftmaxLikeOp<"softmax", "exp(x - m) / sum(exp(x - m)) with m = amax(x)">;
def Graph_LogSoftmaxOp : Graph_SoftmaxLikeOp<"log_softmax", "x - m - log(sum(exp(x - m))) with m = amax(x)">;
def Graph_SoftmaxBackwardOp : Graph_SoftmaxBackwardLikeOp<"softmax_backward", "output * (grad - sum(grad * output))">;
def Graph_LogSoftmaxBackwardOp : Graph_SoftmaxBackwardLikeOp<"log_softmax_backward", "grad - exp(output) * sum(grad)">;

def Graph_LayerNormOp : Graph_NamedOp<"layer_norm", "(x - mean) * rstd * weight + bias with rstd = 1 / sqrt(var + eps); also mean and rstd", [Graph_CompositeTrait]> {
  let description = [{
    Over the last `normalized_dims` dimensions (a count, or an array with one entry per dimension). Mean and rstd keep them with size 1.
    `affine` is nothing, weight, or weight and bias.
  }];
  let arguments = (ins Graph_Tensor:$x, Variadic<Graph_Tensor>:$affine, AnyAttr:$normalized_dims, F64Attr:$eps);
  let results = (outs Graph_Tensor:$result, Graph_Tensor:$mean, Graph_Tensor:$rstd);
}

#endif
