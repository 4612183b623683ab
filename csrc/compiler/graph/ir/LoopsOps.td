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
    With `graph.write_at` in the body every point of all axes writes its own element of each result, and the reduced axes run in order, the first one outermost:
    - a scatter has indices that depend on values. Points of different parallel axes never meet, but in a scatter without reduced axes: any one of them stays, and
      sums take all of them, in any order. With `combine []` the region folds what the destination holds
      with the yielded value; without, the last write stays. The result is a dest.
    - a scan has `combine` with `inits` and indices over axes alone: what the region has folded so far, this point included, is written at each point.
      Floats may be folded in a wider type than that of the result, to which they round.
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
    %sums = graph.loops [i0 = 64, reduce r0 = "s0"] into(%zeros : !graph.tensor<[1000, 64], f32>) at [0] -> (!graph.tensor<[1000, 64], f32>) {
      %t = graph.load %tokens ["r0"] : !graph.tensor<["s0"], i64> -> i64
      %k = graph.check_index %t in 1000
      %v = graph.load %rows ["r0", "i0"] : !graph.tensor<["s0", 64], f32> -> f32
      graph.write_at ["x0", "i0"] (%k)
      graph.yield %v : f32
    } combine [] {
    ^bb0(%held: f32, %value: f32):
      %s = arith.addf %held, %value : f32
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
    /// Folds its reduced axes into one value per point of the parallel ones.
    bool isReduction();
    /// A scatter or a scan: where its points write; null otherwise.
    WriteAtOp getWriteAt();
    bool isScan();
    /// A scatter of which all points are parallel: of those that name one element any one stays, or all are combined, in any order.
    bool isFreeScatter();
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

def Graph_WriteAtOp : Graph_Op<"write_at", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>, ParentOneOf<["LoopsOp"]>]> {
  let summary = "where this point writes its elements of the results";
  let description = [{
    One index expression per dimension of the results over axis names, symbols, and `x<k>` for the k-th of `scalars`; in range. Where `mask` is false nothing is
    written. At most one in a body.
  }];
  let arguments = (ins Graph_ExprArrayAttr:$indices, Variadic<I64>:$scalars, Optional<I1>:$mask);
  let assemblyFormat = "custom<ExprList>($indices) (`(` $scalars^ `)`)? (`mask` $mask^)? attr-dict";
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
