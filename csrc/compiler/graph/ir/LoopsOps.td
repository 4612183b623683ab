// graph.loops and what its body is made of.
#ifndef TORCH_TILE_LOOPS_OPS_TD
#define TORCH_TILE_LOOPS_OPS_TD

include "compiler/graph/ir/GraphTypes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Graph_LoopsOp : Graph_Op<"loops", [SingleBlock]> {
  let summary = "a perfect nest of parallel and reduced axes around a scalar body";
  let description = [{
    For every point of the parallel axes: without `combine` the yielded values are the results' elements; with it, the values yielded over the reduced axes are
    folded by the region, starting from `inits` (identities of the combiner, one per result, so lanes outside the domain may contribute them).
    Dimension k of every result is indexed by the k-th parallel axis. The order of combination is the compiler's; it depends on sizes only, never on threads.
    Result number `dest_results[k]` is written into `dests[k]` instead of a new tensor.
    Inside a fusion `axis_map` gives each of the op's axes as an expression over the group's axes: `at_axes ["i0*64 + i1"]`.
    Scalars of the body are signless: an element of type `ui8` is loaded and yielded as `i8`.

    ```mlir
    %sum = graph.loops [i0 = 8, reduce r0 = "s0"] -> (!graph.tensor<[8], f32>) {
      %v = graph.load %x ["i0", "r0"] : !graph.tensor<[8, "s0"], f32> -> f32
      graph.yield %v : f32
    } combine [0.0 : f32] {
    ^bb0(%acc: f32, %value: f32):
      %s = arith.addf %acc, %value : f32
      graph.yield %s : f32
    }
    ```
  }];
  let arguments = (ins Graph_AxisArrayAttr:$axes, Variadic<Graph_Tensor>:$dests, OptionalAttr<DenseI64ArrayAttr>:$dest_results,
                       OptionalAttr<ArrayAttr>:$inits, OptionalAttr<Graph_ExprArrayAttr>:$axis_map);
  let results = (outs Variadic<Graph_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body, AnyRegion:$combine);
  let assemblyFormat = [{
    custom<AxisList>($axes) (`at_axes` custom<ExprList>($axis_map)^)? (`into` `(` $dests^ `:` type($dests) `)` `at` $dest_results)? `->` `(` type($outputs) `)` attr-dict-with-keyword
    $body (`combine` $inits^ $combine)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isReduction() { return !getCombine().empty(); }
    ::mlir::Block *bodyBlock() { return &getBody().front(); }
    ::llvm::SmallVector<AxisAttr> axisList();
    ::llvm::SmallVector<AxisAttr> parallelAxes();
    ::llvm::SmallVector<AxisAttr> reducedAxes();
    /// The existing buffer that result `k` is written into, or null.
    ::mlir::Value destOf(unsigned result);
  }];
}

def Graph_FusionOp : Graph_Op<"fusion", [SingleBlock]> {
  let summary = "loops that share one kernel";
  let description = [{
    Members are `graph.loops` in an order in which values are defined before use, each covering either all axes of the group or its parallel axes alone; `axis_map`
    says where. A value that a member loads from another member is loaded at exactly the point at which it was made. Reduced axes of the group are those that its
    reductions fold; other members that cover all axes are pointwise along them.
  }];
  let arguments = (ins Graph_AxisArrayAttr:$axes);
  let results = (outs Variadic<Graph_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<AxisList>($axes) `->` `(` type($outputs) `)` attr-dict-with-keyword $body";
}

def Graph_LaunchOp : Graph_Op<"launch"> {
  let summary = "run a tile.kernel";
  let description = [{
    The kernel's pointers are `inputs`, then the results that are new buffers; `writes[k]` is the input that result k is written into, or -1 for a new buffer.
    `integers` are the kernel's i64 arguments. `program_cost` is an estimate in nanoseconds.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Graph_Tensor>:$inputs, Graph_ExprArrayAttr:$integers, Graph_ExprAttr:$programs,
                       Graph_ExprAttr:$program_cost, Graph_ExprAttr:$scratch_bytes, Graph_ExprAttr:$bytes_moved, DenseI64ArrayAttr:$writes);
  let results = (outs Variadic<Graph_Tensor>:$outputs);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `integers` custom<ExprList>($integers) `programs` custom<QuotedExpr>($programs) `cost` custom<QuotedExpr>($program_cost)
    `scratch` custom<QuotedExpr>($scratch_bytes) `moves` custom<QuotedExpr>($bytes_moved) `writes` $writes attr-dict
    `:` functional-type($inputs, $outputs)
  }];
}

def Graph_YieldOp : Graph_Op<"yield", [Pure, Terminator, ParentOneOf<["LoopsOp", "FusionOp"]>]> {
  let summary = "values of a loops body, a combiner or a fusion";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

//===-- body ops ------------------------------------------------------------------------------------------------===//

def Graph_LoadOp : Graph_Op<"load", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "one element of a tensor";
  let description = [{
    One index expression per dimension over axis names, symbols, and `x<k>` for the k-th of `scalars`. Where `mask` is false nothing is read and the result is `other`.
    Unmasked indices are in range.
  }];
  let arguments = (ins Graph_Tensor:$source, Graph_ExprArrayAttr:$indices, Variadic<I64>:$scalars, Optional<I1>:$mask, Optional<AnyType>:$other);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $source custom<ExprList>($indices) (`(` $scalars^ `)`)? (`mask` $mask^ `other` $other `:` type($other))? attr-dict
    `:` qualified(type($source)) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::torch_tile::SizeExpr> indexExprs();
  }];
}

def Graph_IndexOp : Graph_Op<"index_value", [Pure]> {
  let summary = "the value of an index expression";
  let arguments = (ins Graph_ExprAttr:$expr, Variadic<I64>:$scalars);
  let results = (outs I64:$result);
  let assemblyFormat = "custom<QuotedExpr>($expr) (`(` $scalars^ `)`)? attr-dict";
}

def Graph_CheckIndexOp : Graph_Op<"check_index"> {
  let summary = "its operand, which must lie in [0, size): raises IndexError at run time otherwise";
  let description = "With `wrap`, -size <= index < 0 counts from the end and the result is in [0, size). Where `mask` is false nothing is checked and the result is 0. "
                    "With `division` a failure is a division by zero instead.";
  let arguments = (ins I64:$index, Graph_ExprAttr:$size, UnitAttr:$wrap, Optional<I1>:$mask, UnitAttr:$division);
  let results = (outs I64:$result);
  let assemblyFormat = "$index `in` custom<QuotedExpr>($size) (`wrap` $wrap^)? (`mask` $mask^)? attr-dict";
}

def Graph_UniformOp : Graph_Op<"uniform", [Pure]> {
  let summary = "a uniform f32 in [0, 1) of Philox4x32-10";
  let description = [{
    Key: the two halves of `seed`; counter: the two halves of `counter`, then `salt`, then 0. The result is `(word0 >> 8) * 2^-24`.
  }];
  let arguments = (ins I64:$seed, I64:$counter, I64Attr:$salt);
  let results = (outs F32:$result);
  let assemblyFormat = "$seed `,` $counter attr-dict";
}

#endif
