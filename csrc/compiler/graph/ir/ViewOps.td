// Ops that move elements: views of the operand's storage, and copies with another layout.
#ifndef TORCH_TILE_VIEW_OPS_TD
#define TORCH_TILE_VIEW_OPS_TD

include "compiler/graph/ir/NamedOp.td"

class Graph_ViewOpBase<string mnemonic, string summaryText> : Graph_NamedOp<mnemonic, summaryText, [Graph_ViewTrait]>;

def Graph_ViewOp : Graph_ViewOpBase<"view", "the same elements in row-major order under other sizes"> {
  let arguments = (ins Graph_Tensor:$x);
}
def Graph_PermuteOp : Graph_ViewOpBase<"permute", "dimension k of the result is dimension dims[k] of x"> {
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$dims);
  let hasVerifier = 1;
}
def Graph_ExpandOp : Graph_ViewOpBase<"expand", "x broadcast to the result's sizes"> {
  let arguments = (ins Graph_Tensor:$x);
}
def Graph_SliceOp : Graph_ViewOpBase<"slice", "element i of `dim` is element start + step * i of x"> {
  let description = "Sizes are those of the result type. A negative constant `start` counts from the end.";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$dim, Graph_IntOrExprAttr:$start, OptionalAttr<Graph_IntOrExprAttr>:$end,
                       OptionalAttr<Graph_IntOrExprAttr>:$step);
  let hasVerifier = 1;
}
def Graph_SelectOp : Graph_ViewOpBase<"select", "x at one index of `dim`, which disappears; a negative constant counts from the end"> {
  let arguments = (ins Graph_Tensor:$x, I64Attr:$dim, Graph_IntOrExprAttr:$index);
  let hasVerifier = 1;
}
def Graph_UnfoldOp : Graph_ViewOpBase<"unfold", "windows along `dim`, one every `step` elements; positions within a window are the last dimension"> {
  let description = "Sizes are those of the result type. Element j of window i is element step * i + j of `dim` of x. Windows may overlap.";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$dim, Graph_IntOrExprAttr:$step);
  let hasVerifier = 1;
}
def Graph_RoundedOp : Graph_ViewOpBase<"rounded", "x, which is rounded to its type where it is computed"> {
  let description = "Others than the readers in this graph have its values, too: fusion may not leave the rounding out.";
  let arguments = (ins Graph_Tensor:$x);
}
def Graph_AsStridedOp : Graph_ViewOpBase<"as_strided", "the result type's sizes and strides over x's storage"> {
  let description = "`offset` counts elements from the first element of x (not of its storage).";
  let arguments = (ins Graph_Tensor:$x, Graph_IntOrExprAttr:$offset);
}

//===-- copies --------------------------------------------------------------------------------------------------===//

def Graph_FlipOp : Graph_NamedOp<"flip", "reversed along `dims`"> {
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$dims);
}
def Graph_CatOp : Graph_NamedOp<"cat", "operands one after another along `dim`"> {
  let arguments = (ins Variadic<Graph_Tensor>:$xs, I64Attr:$dim);
  let hasVerifier = 1;
}
def Graph_ConstantPadOp : Graph_NamedOp<"constant_pad", "x with low[k] and high[k] elements of `value` around dimension k; negative ones crop"> {
  let description = "`value` is a 0-d tensor operand or an attribute; 0 if neither is given.";
  let arguments = (ins Graph_Tensor:$x, Optional<Graph_Tensor>:$fill, Graph_ExprsAttr:$low, Graph_ExprsAttr:$high, OptionalAttr<Graph_ScalarAttr>:$value);
  let hasVerifier = 1;
}
def Graph_CloneOp : Graph_NamedOp<"clone", "a copy with the result type's strides"> {
  let arguments = (ins Graph_Tensor:$x);
}

#endif
