// Ops that make tensors from no tensor data.
#ifndef TORCH_TILE_CREATION_OPS_TD
#define TORCH_TILE_CREATION_OPS_TD

include "compiler/graph/ir/NamedOp.td"

class Graph_CreationOp<string mnemonic, string summaryText> : Graph_NamedOp<mnemonic, summaryText> {
  let assemblyFormat = "attr-dict `:` functional-type(operands, results)";
}

def Graph_FullOp : Graph_CreationOp<"full", "every element is `value`, converted to the element type"> {
  let arguments = (ins Graph_ScalarAttr:$value);
}
def Graph_SizeValueOp : Graph_CreationOp<"size_value", "every element is the size expression `expr`"> {
  let arguments = (ins Graph_IntOrExprAttr:$expr);
}
def Graph_IotaOp : Graph_CreationOp<"iota", "element i is start + step * i"> {
  let description = "One-dimensional. Integer `start` and `step` are integers or size expressions; a float result also takes floats, computed in its type (f32 for f16 and bf16).";
  let arguments = (ins AnyAttr:$start, AnyAttr:$step);
}
def Graph_PhiloxOp : Graph_NamedOp<"philox", "uniform in [0, 1): Philox4x32-10 of (seed, logical element index, salt)"> {
  let arguments = (ins Graph_Tensor:$seed, I64Attr:$salt);
}

#endif
