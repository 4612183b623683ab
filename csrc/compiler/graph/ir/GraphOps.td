// All ops of the graph dialect: the structural ones here and in LoopsOps.td, the named ones in one file per family.
#ifndef TORCH_TILE_GRAPH_OPS_TD
#define TORCH_TILE_GRAPH_OPS_TD

include "compiler/graph/ir/GraphTypes.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Graph_FuncOp : Graph_Op<"func", [IsolatedFromAbove, FunctionOpInterface]> {
  let summary = "one FX graph";
  let description = [{
    Arguments are the graph's inputs in order, results its outputs in order. `symbols` lists every size symbol in use.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs, OptionalAttr<TypedArrayAttrBase<Graph_SymbolAttr, "symbols">>:$symbols);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// What `symbols` says, for proofs and estimates.
    ::torch_tile::SizeFacts facts();
  }];
}

def Graph_ReturnOp : Graph_Op<"return", [Terminator, ParentOneOf<["FuncOp"]>]> {
  let summary = "the graph's outputs";
  let description = "Outputs `own` are tensors of their own, whatever else lies in their memory.";
  let arguments = (ins Variadic<AnyType>:$values, OptionalAttr<DenseI64ArrayAttr>:$own);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Graph_NoneOp : Graph_Op<"none", [Pure]> {
  let summary = "an output that is None";
  let results = (outs NoneType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Graph_SizeOp : Graph_Op<"size", [Pure]> {
  let summary = "a size expression as a graph output";
  let arguments = (ins Graph_ExprAttr:$expr);
  let results = (outs Graph_Size:$result);
  let assemblyFormat = "attr-dict `:` functional-type(operands, results)";
}

def Graph_CheckOp : Graph_Op<"check"> {
  let summary = "ends the call with an error where `condition` is 0";
  let description = "What uses a symbol of the condition comes after the check in the artifact as it does in the graph.";
  let arguments = (ins Graph_ExprAttr:$condition, StrAttr:$message);
  let assemblyFormat = "attr-dict";
}

def Graph_ExternOp : Graph_Op<"extern"> {
  let summary = "a call through torch's dispatcher";
  let description = [{
    `args` holds one entry per schema argument: `#graph.operand<k>`, `unit` for None, `#graph.expr<..>` for an int, a float, bool or string attribute,
    `#graph.torch<kind, name>`, or an array of those. Results are the call's results flattened in order; a result that is None has type `none`.
    `mutates` lists operands whose storage is written. `aliases` has an entry for each result: the operand whose memory it is, -1 for new memory, -2 where it
    may be any operand's or another such result's; without it all results are new memory. `effect` marks a call whose order among such calls matters, as of those that draw from a generator;
    `reason` says why the op is not generated.
  }];
  let arguments = (ins Variadic<AnyType>:$inputs, StrAttr:$op, StrAttr:$overload, ArrayAttr:$args, OptionalAttr<DenseI64ArrayAttr>:$mutates,
                       OptionalAttr<DenseI64ArrayAttr>:$aliases, UnitAttr:$effect, OptionalAttr<StrAttr>:$reason);
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What `aliases` says of a result: an operand, kNewMemory or kAnyOperand.
    int64_t viewedOperand(unsigned result) { return getAliases() ? (*getAliases())[result] : kNewMemory; }
  }];
}

def Graph_PyCallOp : Graph_Op<"pycall"> {
  let summary = "a call of a Python callable of the graph; such graphs are not cached on disk";
  let description = "It may write to its operands, and its results may be views of them.";
  let arguments = (ins Variadic<AnyType>:$inputs, I64Attr:$callable, ArrayAttr:$args);
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
}

def Graph_CopyToOp : Graph_Op<"copy_"> {
  let summary = "write a value into a graph input or a view of one; broadcasts and converts like Tensor.copy_";
  let arguments = (ins Graph_Tensor:$dest, Graph_Tensor:$value);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$dest `,` $value attr-dict `:` functional-type(operands, results)";
}

def Graph_AliasOp : Graph_Op<"alias", [Pure]> {
  let summary = "a tensor of the result type's sizes and strides over the storage of the source, `offset` elements on";
  let arguments = (ins Graph_Tensor:$source, Graph_ExprAttr:$offset);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Graph_AssembleOp : Graph_Op<"assemble", [Pure]> {
  let summary = "a tensor of which loops computed every part in its place";
  let description = [{
    The parts follow one another along `dim` and have the strides of the result. Nothing is copied: the memory of the result is made before the first part, and
    each part lies in it. Parts are results of loops that nothing else reads.
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$parts, I64Attr:$dim);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$parts attr-dict `:` type($parts) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Where part `number` begins, in elements from the first of the result.
    ::torch_tile::SizeExpr offsetOf(unsigned number);
  }];
}

include "compiler/graph/ir/LoopsOps.td"
include "compiler/graph/ir/PointwiseOps.td"
include "compiler/graph/ir/CreationOps.td"
include "compiler/graph/ir/ViewOps.td"
include "compiler/graph/ir/ReductionOps.td"
include "compiler/graph/ir/IndexOps.td"
include "compiler/graph/ir/CompositeOps.td"

#endif
