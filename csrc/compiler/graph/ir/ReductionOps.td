// Reductions. `dims` absent or empty means all dimensions.
#ifndef TORCH_TILE_REDUCTION_OPS_TD
#define TORCH_TILE_REDUCTION_OPS_TD

include "compiler/graph/ir/NamedOp.td"

class Graph_ReductionOp<string mnemonic, string summaryText, list<Trait> traits = []>
    : Graph_NamedOp<mnemonic, summaryText, !listconcat([Graph_ReductionTrait], traits)> {
  let arguments = (ins Graph_Tensor:$x, OptionalAttr<DenseI64ArrayAttr>:$dims, Graph_FlagAttr:$keepdim);
}
class Graph_ArgReductionOp<string mnemonic, string summaryText> : Graph_NamedOp<mnemonic, summaryText, [Graph_ReductionTrait]> {
  let description = "Without `dim`, of the flattened tensor. NaN wins, ties take the lowest index.";
  let arguments = (ins Graph_Tensor:$x, OptionalAttr<I64Attr>:$dim, Graph_FlagAttr:$keepdim);
}

// x is converted to the result's element type first; f16 and bf16 accumulate in f32 and round once.
def Graph_SumOp : Graph_ReductionOp<"sum", "sum of x">;
def Graph_ProdOp : Graph_ReductionOp<"prod", "product of x">;
def Graph_MeanOp : Graph_ReductionOp<"mean", "sum of x / number of elements", [Graph_CompositeTrait]>;
def Graph_AmaxOp : Graph_ReductionOp<"amax", "largest x; NaN if any is">;
def Graph_AminOp : Graph_ReductionOp<"amin", "smallest x; NaN if any is">;
def Graph_AnyOp : Graph_ReductionOp<"any", "some x != 0">;
def Graph_AllOp : Graph_ReductionOp<"all", "every x != 0">;
def Graph_ArgmaxOp : Graph_ArgReductionOp<"argmax", "index of the largest x">;
def Graph_ArgminOp : Graph_ArgReductionOp<"argmin", "index of the smallest x">;

def Graph_VarMeanOp : Graph_NamedOp<"var_mean", "sum((x - mean)^2) / max(0, n - correction), and the mean", [Graph_ReductionTrait, Graph_CompositeTrait]> {
  let description = [{
    Short reductions are decomposed into two passes; long ones are one pass of (mean, m2, count) triples joined by the formula of
    Chan, Golub and LeVeque (1979).
  }];
  let arguments = (ins Graph_Tensor:$x, OptionalAttr<DenseI64ArrayAttr>:$dims, OptionalAttr<Graph_ScalarAttr>:$correction, Graph_FlagAttr:$keepdim);
  let results = (outs Graph_Tensor:$var, Graph_Tensor:$mean);
}

//===-- scans: the fold of all elements up to each along `dim` ---------------------------------------------------===//

// x has the result's element type. f32 accumulates in f64, f16 and bf16 in f32; each result rounds once.
class Graph_ScanOp<string mnemonic, string summaryText> : Graph_NamedOp<mnemonic, summaryText> {
  let arguments = (ins Graph_Tensor:$x, I64Attr:$dim);
  let hasVerifier = 1;
}
class Graph_ArgScanOp<string mnemonic, string summaryText> : Graph_NamedOp<mnemonic, summaryText> {
  let description = "NaN wins, ties take the highest index.";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$dim);
  let results = (outs Graph_Tensor:$values, Graph_Tensor:$indices);
  let hasVerifier = 1;
}
def Graph_CumsumOp : Graph_ScanOp<"cumsum", "running sum">;
def Graph_CumprodOp : Graph_ScanOp<"cumprod", "running product">;
def Graph_LogcumsumexpOp : Graph_ScanOp<"logcumsumexp", "log of the running sum of exp(x)">;
def Graph_CummaxOp : Graph_ArgScanOp<"cummax", "the largest x so far and its index">;
def Graph_CumminOp : Graph_ArgScanOp<"cummin", "the smallest x so far and its index">;

#endif
