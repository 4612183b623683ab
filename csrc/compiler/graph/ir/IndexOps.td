// Data-dependent reads. Indices out of range raise IndexError at run time.
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

#endif
