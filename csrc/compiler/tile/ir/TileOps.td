// The tile dialect: one program of a grid over tiles of static shape.
#ifndef TORCH_TILE_TILE_OPS_TD
#define TORCH_TILE_TILE_OPS_TD

include "compiler/tile/ir/TileBase.td"
include "compiler/tile/ir/TileMemoryOps.td"

//===-- structure -----------------------------------------------------------------------------------------------===//

def Tile_KernelOp : Tile_Op<"kernel", [IsolatedFromAbove, FunctionOpInterface]> {
  let summary = "one program of a grid";
  let description = [{
    Arguments are pointers, i64 sizes, and scalars. `lines` names the lines of the graph text it came from; it is no part of the kernel's identity.

    ```mlir
    tile.kernel @add(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64) {
      %pid = tile.program_id 0 : i64
      ...
      tile.return
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs, OptionalAttr<DenseI64ArrayAttr>:$lines);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Tile_ReturnOp : Tile_Op<"return", [Pure, Terminator, ParentOneOf<["KernelOp"]>]> {
  let summary = "end of the program";
  let assemblyFormat = "attr-dict";
}

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "this program's index along grid axis 0 (fastest), 1 or 2";
  let arguments = (ins I64Attr:$axis);
  let results = (outs AnyTypeOf<[I32, I64]>:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

def Tile_NumProgramsOp : Tile_Op<"num_programs", [Pure]> {
  let summary = "size of the grid along an axis";
  let arguments = (ins I64Attr:$axis);
  let results = (outs AnyTypeOf<[I32, I64]>:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

//===-- shapes --------------------------------------------------------------------------------------------------===//

def Tile_IotaOp : Tile_Op<"iota", [Pure]> {
  let summary = "0, 1, 2, ... along the only axis";
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "a tile of one scalar";
  let arguments = (ins Tile_Scalar:$source);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "repeats along axes of size 1; same rank";
  let arguments = (ins Tile_Tile:$source);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Tile_ExpandDimsOp : Tile_Op<"expand_dims", [Pure]> {
  let summary = "a new axis of size 1 before `axis`";
  let arguments = (ins Tile_Tile:$source, I64Attr:$axis);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source `axis` $axis attr-dict `:` type($source) `->` type($result)";
}

def Tile_ReshapeOp : Tile_Op<"reshape", [Pure]> {
  let summary = "the same elements in row-major order under another shape";
  let arguments = (ins Tile_Tile:$source);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Tile_TransOp : Tile_Op<"trans", [Pure]> {
  let summary = "axis k of the result is axis perm[k] of the source";
  let arguments = (ins Tile_Tile:$source, DenseI64ArrayAttr:$perm);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source `perm` $perm attr-dict `:` type($source) `->` type($result)";
}

def Tile_ConvertLayoutOp : Tile_Op<"convert_layout", [Pure]> {
  let summary = "the same tile over the threads in another way; of GPU kernels with layouts";
  let arguments = (ins Tile_Tile:$source);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_CatOp : Tile_Op<"cat", [Pure, SameTypeOperands]> {
  let summary = "the right tile after the left one along the first axis";
  let arguments = (ins Tile_Tile:$lhs, Tile_Tile:$rhs);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
}

def Tile_JoinOp : Tile_Op<"join", [Pure, SameTypeOperands]> {
  let summary = "a new last axis of size 2: the left tile at 0, the right one at 1; scalars make a tile of 2";
  let arguments = (ins Tile_Value:$lhs, Tile_Value:$rhs);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
}

def Tile_InterleaveOp : Tile_Op<"interleave", [Pure]> {
  let summary = "tiles of one axis whose elements alternate: the results, one after the other, are element 0 of each source, then element 1 of each";
  let arguments = (ins Variadic<RankedTensorOf<[AnyInteger, AnyFloat]>>:$sources);
  let results = (outs Variadic<RankedTensorOf<[AnyInteger, AnyFloat]>>:$results);
  let assemblyFormat = "$sources attr-dict `:` functional-type($sources, $results)";
  let hasVerifier = 1;
}

def Tile_SplitOp : Tile_Op<"split", [Pure, AllTypesMatch<["lhs", "rhs"]>]> {
  let summary = "takes the last axis, of size 2, apart";
  let arguments = (ins Tile_Tile:$source);
  let results = (outs Tile_Value:$lhs, Tile_Value:$rhs);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($lhs)";
}

def Tile_TakeOp : Tile_Op<"take", [Pure]> {
  let summary = "element (.., i, ..) of the result is element (.., indices(.., i, ..), ..) of the source along `axis`";
  let description = [{
    Sizes of source and indices agree on the other axes. An index outside the axis is undefined, but reads no memory of others.

    ```mlir
    %t = tile.take %source[%indices] axis 1 : tensor<4x32xf32>, tensor<4x8xi32> -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Tile_Tile:$source, RankedTensorOf<[AnyInteger]>:$indices, I64Attr:$axis);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source `[` $indices `]` `axis` $axis attr-dict `:` type($source) `,` type($indices) `->` type($result)";
}

def Tile_ShuffleXorOp : Tile_Op<"shuffle_xor", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "element i of the result is element i ^ mask of the source; elements are counted row by row";
  let description = [{
    One step of a network that sorts. Every element has a partner, so the number of elements is a multiple of twice the
    mask's highest bit.

    ```mlir
    %partner = tile.shuffle_xor %x by 4 : tensor<2x16xf32>
    ```
  }];
  let arguments = (ins Tile_Tile:$source, I64Attr:$mask);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source `by` $mask attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Tile_HistogramOp : Tile_Op<"histogram", [Pure]> {
  let summary = "how often each of 0, 1, ... (as many as the result is long) occurs where `mask` is true; other values are not counted";
  let arguments = (ins RankedTensorOf<[AnyInteger]>:$source, Optional<RankedTensorOf<[I1]>>:$mask);
  let results = (outs RankedTensorOf<[AnyInteger]>:$result);
  let assemblyFormat = "$source (`mask` $mask^ `:` type($mask))? attr-dict `:` type($source) `->` type($result)";
}

//===-- matrices ------------------------------------------------------------------------------------------------===//

def Tile_DotOp : Tile_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + lhs @ rhs over the last two axes; a leading axis counts matrices";
  let description = [{
    [B,] M x K times [B,] K x N. Products and sums are made in the type of `acc`: f32 for f32, f16, bf16 and f8 operands, f64, or i32 for i8 operands. The order of
    summation along K is fixed per shape. For f32, `tile.input_precision` ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6") says what matrix instructions of a GPU may
    round operands to.

    ```mlir
    %c = tile.dot %a, %b, %acc : tensor<16x32xbf16>, tensor<32x8xbf16> -> tensor<16x8xf32>
    ```
  }];
  let arguments = (ins Tile_Tile:$lhs, Tile_Tile:$rhs, Tile_Tile:$acc);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$lhs `,` $rhs `,` $acc attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

//===-- reductions ----------------------------------------------------------------------------------------------===//

def Tile_ReduceOp : Tile_Op<"reduce", [Pure, SingleBlock]> {
  let summary = "combines along one axis";
  let description = [{
    N tiles of one shape, N results without the axis (scalars for one-axis tiles). The combiner takes N left and N right values and is taken to be associative; the order of
    combination is fixed per shape: halves of the axis are combined lane by lane until one is left.

    ```mlir
    %s = tile.reduce (%t) axis 0 : (tensor<64xf32>) -> f32 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    }
    ```
  }];
  let arguments = (ins Variadic<Tile_Tile>:$sources, I64Attr:$axis);
  let results = (outs Variadic<Tile_Value>:$outputs);
  let regions = (region SizedRegion<1>:$combine);
  let assemblyFormat = "`(` $sources `)` `axis` $axis attr-dict `:` functional-type($sources, $outputs) $combine";
  let hasVerifier = 1;
}

def Tile_ScanOp : Tile_Op<"scan", [Pure, SingleBlock]> {
  let summary = "the fold of all elements up to each one along an axis, itself included; `reverse` begins at the end";
  let description = [{
    N tiles of one shape, N results of that shape. The combiner takes the N values so far and N more and is taken to be associative, not commutative; the order of
    combination is fixed per shape.

    ```mlir
    %s = tile.scan (%t) axis 0 : (tensor<64xf32>) -> tensor<64xf32> {
    ^bb0(%before: f32, %x: f32):
      %c = arith.addf %before, %x : f32
      tile.yield %c : f32
    }
    ```
  }];
  let arguments = (ins Variadic<Tile_Tile>:$sources, I64Attr:$axis, UnitAttr:$reverse);
  let results = (outs Variadic<Tile_Tile>:$outputs);
  let regions = (region SizedRegion<1>:$combine);
  let assemblyFormat = "`(` $sources `)` `axis` $axis (`reverse` $reverse^)? attr-dict `:` functional-type($sources, $outputs) $combine";
  let hasVerifier = 1;
}

def Tile_MapOp : Tile_Op<"map", [SingleBlock]> {
  let summary = "a region of scalars, with any control flow, for each element";
  let description = [{
    `pack` neighbours are given to the region at once: it takes pack values of each source, in order, and yields pack values of each result.

    ```mlir
    %r = tile.map (%t) pack 1 : (tensor<64xf32>) -> tensor<64xf32> {
    ^bb0(%a: f32):
      tile.yield %a : f32
    }
    ```
  }];
  let arguments = (ins Variadic<Tile_Tile>:$sources, I64Attr:$pack);
  let results = (outs Variadic<Tile_Tile>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $sources `)` `pack` $pack attr-dict `:` functional-type($sources, $outputs) $body";
}

def Tile_ExtractOp : Tile_Op<"extract", [Pure]> {
  let summary = "one element of a tile with one axis";
  let arguments = (ins Tile_Tile:$source, I64:$position);
  let results = (outs Tile_Scalar:$result);
  let assemblyFormat = "$source `[` $position `]` attr-dict `:` type($source) `->` type($result)";
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ParentOneOf<["ReduceOp", "ScanOp", "MapOp", "ScatterOp"]>]> {
  let summary = "the combined values";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

//===-- random --------------------------------------------------------------------------------------------------===//

def Tile_UniformOp : Tile_Op<"uniform", [Pure]> {
  let summary = "uniform f32 in [0, 1) of Philox4x32-10 with key `seed` and counter (lo, hi of `counter`, salt, 0)";
  let arguments = (ins I64:$seed, AnyTypeOf<[I64, RankedTensorOf<[I64]>]>:$counter, I64Attr:$salt);
  let results = (outs AnyTypeOf<[F32, RankedTensorOf<[F32]>]>:$result);
  let assemblyFormat = "$seed `,` $counter attr-dict `:` type($counter) `->` type($result)";
}

//===-- debugging -----------------------------------------------------------------------------------------------===//

def Tile_PrintOp : Tile_Op<"print", [MemoryEffects<[MemWrite]>]> {
  let summary = "prints values with the program's ids and each element's index to standard output";
  let description = [{
    `is_signed` says of each value how its integers are read; 1 if the attribute is absent.

    ```mlir
    tile.print "x = " %x, %n hex : tensor<16xi32>, i32
    ```
  }];
  let arguments = (ins StrAttr:$prefix, Variadic<Tile_Value>:$values, UnitAttr:$hex, OptionalAttr<DenseI32ArrayAttr>:$is_signed);
  let assemblyFormat = "$prefix ($values^)? (`hex` $hex^)? attr-dict (`:` qualified(type($values))^)?";
}

def Tile_AssertOp : Tile_Op<"assert", [MemoryEffects<[MemWrite]>]> {
  let summary = "ends the kernel with Assertion and `message` where a condition is false";
  let arguments = (ins Tile_BoolLike:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict `:` type($condition)";
}

#endif
