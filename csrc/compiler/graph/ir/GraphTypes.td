#ifndef TORCH_TILE_GRAPH_TYPES_TD
#define TORCH_TILE_GRAPH_TYPES_TD

include "compiler/graph/ir/GraphDialect.td"

def Graph_Tensor : Graph_Type<"GraphTensor", "tensor"> {
  let summary = "a strided tensor with symbolic sizes";
  let description = [{
    `!graph.tensor<[8, "s0"], f32>` or with strides `!graph.tensor<[8, "s0"], f32, [1, 8]>`. Sizes and strides are in elements; each is an integer or a
    quoted size expression. Strides are printed only when they differ from row-major contiguous ones.
  }];
  let parameters = (ins ArrayRefParameter<"::torch_tile::SizeExpr">:$sizes, "::mlir::Type":$elementType,
                        ArrayRefParameter<"::torch_tile::SizeExpr">:$strides);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    unsigned getRank() const { return getSizes().size(); }
    /// Row-major contiguous strides for `sizes`.
    static ::llvm::SmallVector<::torch_tile::SizeExpr> contiguousStrides(::mlir::MLIRContext *context,
                                                                         ::llvm::ArrayRef<::torch_tile::SizeExpr> sizes);
    static GraphTensorType getContiguous(::mlir::MLIRContext *context, ::llvm::ArrayRef<::torch_tile::SizeExpr> sizes, ::mlir::Type elementType);
    bool isContiguous() const;
    ::torch_tile::SizeExpr numElements() const;
  }];
}

def Graph_Size : Graph_Type<"Size", "size"> {
  let summary = "an integer scalar whose value is a known size expression";
  let parameters = (ins "::torch_tile::SizeExpr":$expr);
  let hasCustomAssemblyFormat = 1;
}

//===-- attributes ----------------------------------------------------------------------------------------------===//

def Graph_ExprAttr : Graph_Attr<"Expr", "expr"> {
  let summary = "a size or index expression, as in `#graph.expr<\"s0*2 + i1\">`";
  let parameters = (ins "::torch_tile::SizeExpr":$value);
  let hasCustomAssemblyFormat = 1;
}

def Graph_AxisAttr : Graph_Attr<"Axis", "axis"> {
  let summary = "a loop axis: its variable, its extent, and whether it is reduced";
  let description = "Inside `graph.loops` and `graph.fusion` written as `[i0 = 8, reduce r0 = \"s0\"]`.";
  let parameters = (ins "::mlir::StringAttr":$name, "::torch_tile::SizeExpr":$extent, "bool":$reduced);
  let hasCustomAssemblyFormat = 1;
}

def Graph_SymbolAttr : Graph_Attr<"Symbol", "symbol"> {
  let summary = "a size symbol with its range and the value seen when the graph was traced";
  let description = [{
    `#graph.symbol<"s0", min = 2, max = 4096, hint = 8>`. The hint serves cost estimates only. `number = true` says that
    it is no size or stride of a tensor: memory sets it no bounds.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$min, "int64_t":$max, "int64_t":$hint,
                    DefaultValuedParameter<"bool", "false">:$number);
  let assemblyFormat = [{
    `<` $name `,` `min` `=` $min `,` `max` `=` $max `,` `hint` `=` $hint (`,` `number` `=` $number^)? `>`
  }];
}

def Graph_OperandAttr : Graph_Attr<"Operand", "operand"> {
  let summary = "the k-th tensor operand, in the argument list of an extern call";
  let parameters = (ins "int64_t":$index);
  let assemblyFormat = "`<` $index `>`";
}

def Graph_TorchAttr : Graph_Attr<"Torch", "torch"> {
  let summary = "a torch constant: `#graph.torch<\"dtype\", \"float32\">`, also device, layout, memory_format";
  let parameters = (ins "::mlir::StringAttr":$kind, "::mlir::StringAttr":$value);
  let assemblyFormat = "`<` $kind `,` $value `>`";
}

def Graph_ExprArrayAttr : TypedArrayAttrBase<Graph_ExprAttr, "array of size expressions">;
def Graph_AxisArrayAttr : TypedArrayAttrBase<Graph_AxisAttr, "array of loop axes">;

#endif
