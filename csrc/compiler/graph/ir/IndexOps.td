// Data-dependent reads and writes. Indices out of range raise IndexError at run time.
#ifndef TORCH_TILE_INDEX_OPS_TD
#define TORCH_TILE_INDEX_OPS_TD

include "compiler/graph/ir/NamedOp.td"

def Graph_IndexTensorOp : Graph_NamedOp<"index", "x at the points that integer tensors name"> {
  let description = [{
    Index tensor k names positions of dimension dims[k] of x (`dims` ascending; 0, 1, ... if absent); index tensors broadcast together to B. The result has B in place of the indexed
    dimensions if those are adjacent, else in front. With `wrap`, negative indices count from the end.
  }];
  let arguments = (ins Graph_Tensor:$x, Variadic<Graph_Tensor>:$indices, OptionalAttr<DenseI64ArrayAttr>:$dims, Graph_FlagAttr:$wrap);
  let hasVerifier = 1;
}
def Graph_GatherOp : Graph_NamedOp<"gather", "result[..., i, ...] = x[..., index[..., i, ...], ...] along `dim`"> {
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$index, I64Attr:$dim);
  let hasVerifier = 1;
}

class Graph_WritingOp<string mnemonic, string summaryText> : Graph_NamedOp<mnemonic, summaryText> {
  code combineDoc = [{
    `combine` is "add", "mul", "max" or "min": what is there is folded with the new value, in the order of the indices; without it, the last value stays.
    f16 and bf16 round after each value.
  }];
  let hasVerifier = 1;
}
def Graph_IndexPutOp : Graph_WritingOp<"index_put", "a copy of x with `values` at the points that integer tensors name"> {
  let description = [{
    The points are those that `index` reads with the same indices, dims and wrap; `values` broadcasts to its result. With `skip`, points whose only index is
    that number or out of range are left out. }] # combineDoc;
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$values, Variadic<Graph_Tensor>:$indices, OptionalAttr<DenseI64ArrayAttr>:$dims, Graph_FlagAttr:$wrap,
                       OptionalAttr<StrAttr>:$combine, OptionalAttr<I64Attr>:$skip);
}
def Graph_ScatterOp : Graph_WritingOp<"scatter", "a copy of x with result[..., index[..., i, ...], ...] = source[..., i, ...] along `dim`"> {
  let description = [{ `source` is at least as large as `index`, or 0-d. }] # combineDoc;
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$index, Graph_Tensor:$source, I64Attr:$dim, OptionalAttr<StrAttr>:$combine);
}

#endif
