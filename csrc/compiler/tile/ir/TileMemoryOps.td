// Ops of the tile dialect that reach memory: accesses, pointers, checks of indices, and staging through shared memory.
#ifndef TORCH_TILE_TILE_MEMORY_OPS_TD
#define TORCH_TILE_TILE_MEMORY_OPS_TD

include "compiler/tile/ir/TileBase.td"

//===-- memory --------------------------------------------------------------------------------------------------===//

def Tile_LoadOp : Tile_Op<"load", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "structured access: element (i0, i1, ...) comes from base + offset + sum of i_k * stride_k";
  let description = [{
    With `valid`, elements with i_k >= valid_k on any axis are not read and hold `other` (0 if absent); likewise elements where `mask`, of the result's shape, is
    false. A scalar result has no strides.

    ```mlir
    %t = tile.load %p[%offset] strides [%row, 1] valid [%m, %n] : !tile.ptr<f32> -> tensor<16x16xf32>
    ```
  }];
  let arguments = (ins Tile_Ptr:$base, I64:$offset, Variadic<I64>:$strides, DenseI64ArrayAttr:$static_strides, Variadic<I64>:$valid,
                       Optional<Tile_BoolLike>:$mask, Optional<AnyType>:$other);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = [{
    $base `[` $offset `]` `strides` custom<StrideList>($strides, $static_strides) (`valid` `[` $valid^ `]`)? (`mask` $mask^ `:` type($mask))?
    (`other` $other^ `:` type($other))? attr-dict
    `:` qualified(type($base)) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "structured access: element (i0, i1, ...) goes to base + offset + sum of i_k * stride_k";
  let description = "Elements with i_k >= valid_k on any axis are not written; likewise those where `mask`, of the value's shape, is false.";
  let arguments = (ins Tile_Value:$value, Tile_Ptr:$base, I64:$offset, Variadic<I64>:$strides, DenseI64ArrayAttr:$static_strides,
                       Variadic<I64>:$valid, Optional<Tile_BoolLike>:$mask);
  let assemblyFormat = [{
    $value `,` $base `[` $offset `]` `strides` custom<StrideList>($strides, $static_strides) (`valid` `[` $valid^ `]`)? (`mask` $mask^ `:` type($mask))? attr-dict
    `:` type($value) `,` qualified(type($base))
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$base, "::mlir::Value":$offset, "::mlir::ValueRange":$strides,
                   "::llvm::ArrayRef<int64_t>":$staticStrides, "::mlir::ValueRange":$valid),
              [{ build($_builder, $_state, value, base, offset, strides, staticStrides, valid, ::mlir::Value()); }]>
  ];
  let hasVerifier = 1;
}

def Tile_GatherOp : Tile_Op<"gather", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "element i comes from base + offsets[i]; masked-off lanes are not read and hold `other` (0 if absent)";
  let description = [{
    A tile of pointers as base gives each element its own; offsets may then be left out. `other` is a scalar or a tile of the result's type.

    ```mlir
    %t = tile.gather %pointers mask %m : tensor<16xi1> : tensor<16x!tile.ptr<f32>> -> tensor<16xf32>
    ```
  }];
  let arguments = (ins Tile_PtrLike:$base, Optional<Tile_OffsetLike>:$offsets, Optional<Tile_BoolLike>:$mask, Optional<AnyType>:$other);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = [{
    $base (`[` $offsets^ `]`)? (`mask` $mask^ `:` type($mask))? (`other` $other^ `:` type($other))? attr-dict
    `:` qualified(type($base)) (`,` type($offsets)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_ScatterOp : Tile_Op<"scatter", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "element i goes to base + offsets[i]; where offsets collide, the last lane wins (on GPU: one of them)";
  let description = [{
    A tile of pointers as base gives each element its own; offsets may then be left out. With a region, what memory holds is replaced by the region's answer for it and
    the element, lane after lane (not on GPU):

    ```mlir
    tile.scatter %values, %p[%offsets] : tensor<16xf32>, !tile.ptr<f32>, tensor<16xi64> combine {
    ^bb0(%held: f32, %value: f32):
      %s = arith.addf %held, %value : f32
      tile.yield %s : f32
    }
    ```
  }];
  let arguments = (ins Tile_Value:$value, Tile_PtrLike:$base, Optional<Tile_OffsetLike>:$offsets, Optional<Tile_BoolLike>:$mask);
  let regions = (region AnyRegion:$combine);
  let assemblyFormat = [{
    $value `,` $base (`[` $offsets^ `]`)? (`mask` $mask^ `:` type($mask))? attr-dict
    `:` type($value) `,` qualified(type($base)) (`,` type($offsets)^)? (`combine` $combine^)?
  }];
  let hasVerifier = 1;
}

def Tile_AtomicRmwOp : Tile_Op<"atomic_rmw", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["value", "result"]>]> {
  let summary = "each element of memory is updated in one step; the result is what was there before";
  let description = [{
    `add`, `max` and `min` are of the element's kind: floats or signed integers; `umax` and `umin` of unsigned ones. Lanes go in order, so colliding lanes each take
    effect. Masked-off lanes touch nothing and yield 0. Float `max` and `min` follow IEEE maxNum. `maximum` and `minimum` are of f32 and f64, and NaN wins: a NaN in
    memory is positive for the one and negative for the other, as these updates leave it. A `relaxed` update orders nothing else: what programs wrote before
    it need not be seen by who sees it.

    ```mlir
    %old = tile.atomic_rmw add %v, %p[%i] mask %m : tensor<16xi1> : tensor<16xf32>, !tile.ptr<f32>, tensor<16xi32>
    ```
  }];
  let arguments = (ins Tile_AtomicKind:$kind, Tile_Value:$value, Tile_PtrLike:$base, Optional<Tile_OffsetLike>:$offsets, Optional<Tile_BoolLike>:$mask,
                       UnitAttr:$relaxed);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = [{
    $kind $value `,` $base (`[` $offsets^ `]`)? (`mask` $mask^ `:` type($mask))? attr-dict
    `:` type($value) `,` qualified(type($base)) (`,` type($offsets)^)?
  }];
  let hasVerifier = 1;
}

def Tile_AtomicCasOp : Tile_Op<"atomic_cas", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["expected", "value", "result"]>]> {
  let summary = "each element of memory that equals `expected`, bit for bit, becomes `value`; the result is what was there before";
  let description = [{
    ```mlir
    %old = tile.atomic_cas %expected, %v, %p[%i] : tensor<16xi32>, !tile.ptr<i32>, tensor<16xi32>
    ```
  }];
  let arguments = (ins Tile_Value:$expected, Tile_Value:$value, Tile_PtrLike:$base, Optional<Tile_OffsetLike>:$offsets, Optional<Tile_BoolLike>:$mask);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = [{
    $expected `,` $value `,` $base (`[` $offsets^ `]`)? (`mask` $mask^ `:` type($mask))? attr-dict
    `:` type($value) `,` qualified(type($base)) (`,` type($offsets)^)?
  }];
  let hasVerifier = 1;
}

def Tile_PtrAddOp : Tile_Op<"ptr_add", [Pure, AllTypesMatch<["base", "result"]>]> {
  let summary = "a pointer some elements on; on a tile of pointers, each by its own offset";
  let description = [{
    A tile of pointers begins as `tile.splat` of a pointer.

    ```mlir
    %q = tile.ptr_add %pointers, %i : tensor<16x!tile.ptr<f32>>, tensor<16xi32>
    ```
  }];
  let arguments = (ins Tile_PtrLike:$base, Tile_OffsetLike:$offset);
  let results = (outs Tile_PtrLike:$result);
  let assemblyFormat = "$base `,` $offset attr-dict `:` qualified(type($result)) `` custom<OffsetType>(type($offset))";
  let hasVerifier = 1;
}

def Tile_PtrToIntOp : Tile_Op<"ptr_to_int", [Pure]> {
  let summary = "addresses of pointers, in bytes";
  let arguments = (ins Tile_PtrLike:$source);
  let results = (outs AnyTypeOf<[I64, RankedTensorOf<[I64]>]>:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` type($result)";
}

def Tile_IntToPtrOp : Tile_Op<"int_to_ptr", [Pure]> {
  let summary = "pointers from addresses in bytes";
  let arguments = (ins AnyTypeOf<[I64, RankedTensorOf<[I64]>]>:$source);
  let results = (outs Tile_PtrLike:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` qualified(type($result))";
}

def Tile_PtrCastOp : Tile_Op<"ptr_cast", [Pure]> {
  let summary = "the same addresses, pointing to elements of another type";
  let arguments = (ins Tile_PtrLike:$source);
  let results = (outs Tile_PtrLike:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
}

def Tile_ScratchOp : Tile_Op<"scratch", [Pure]> {
  let summary = "memory of this program alone, `offset` bytes into its scratch space; undefined at the start";
  let arguments = (ins I64:$offset);
  let results = (outs Tile_Ptr:$result);
  let assemblyFormat = "$offset attr-dict `:` qualified(type($result))";
}

def Tile_HoldOp : Tile_Op<"hold", [MemoryEffects<[MemWrite]>]> {
  let summary = "keeps a tile for `held`, in fast memory of this program";
  let description = [{
    The memory of a buffer begins `offset` bytes into that of the program, of which `tile.held_bytes` on the kernel says how much there is; the tile's elements lie there from
    number `index` on. A thread finds only what it kept itself: all tiles of a buffer have one shape, and indices are multiples of its size. For GPU alone, where it is shared
    memory.

    ```mlir
    tile.hold %x, %i offset 0 : tensor<1024xbf16>
    %x2 = tile.held %i offset 0 : tensor<1024xbf16>
    ```
  }];
  let arguments = (ins Tile_Value:$value, I64:$index, I64Attr:$offset);
  let assemblyFormat = "$value `,` $index `offset` $offset attr-dict `:` type($value)";
}

def Tile_HeldOp : Tile_Op<"held", [MemoryEffects<[MemRead]>]> {
  let summary = "what `hold` kept";
  let arguments = (ins I64:$index, I64Attr:$offset);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = "$index `offset` $offset attr-dict `:` type($result)";
}

def Tile_CheckIndexOp : Tile_Op<"check_index", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "indices, checked: where one lies outside [0, size) the kernel ends with IndexOutOfRange";
  let description = [{
    With `wrap`, -size <= index < 0 counts from the end. Lanes outside `valid` (first axis) or where `mask` is false are not checked; lanes not checked or failing yield 0,
    so that accesses through the result stay in range until the program ends. With `division` the kernel ends with DivisionByZero instead.
  }];
  let arguments = (ins Tile_OffsetLike:$index, I64:$size, Optional<I64>:$valid, Optional<Tile_BoolLike>:$mask, UnitAttr:$wrap, I64Attr:$line,
                       UnitAttr:$division);
  let results = (outs Tile_OffsetLike:$result);
  let assemblyFormat = [{
    $index `in` $size (`valid` $valid^)? (`mask` $mask^ `:` type($mask))? (`wrap` $wrap^)? `line` $line attr-dict `:` type($index) `->` type($result)
  }];
}

//===-- staging -------------------------------------------------------------------------------------------------===//

// Operands of products on their way through shared memory; of GPU kernels with layouts, made by codegen's pipelining.
// `offset` counts bytes from the start of the kernel's staged memory, which is cut into `slot_bytes` per slot.

def Tile_StageBeginOp : Tile_Op<"stage_begin", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "all threads have read what was staged before";
  let assemblyFormat = "attr-dict";
}

def Tile_StageOp : Tile_Op<"stage", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts to copy what pointers point to into a slot; 0 where the mask is false";
  let description = [{
    The copy is complete for all threads after the tile.stage_wait that its group is waited for by.

    ```mlir
    tile.stage %pointers to 0[%slot] slot_bytes 16384 : tensor<64x64x!tile.ptr<bf16>>
    ```
  }];
  let arguments = (ins Tile_PtrTile:$pointers, I32:$slot, Optional<Tile_BoolLike>:$mask, I64Attr:$offset,
                       I64Attr:$slot_bytes);
  let assemblyFormat = [{
    $pointers `to` $offset `[` $slot `]` `slot_bytes` $slot_bytes (`mask` $mask^ `:` type($mask))? attr-dict
    `:` qualified(type($pointers))
  }];
}

def Tile_StageValueOp : Tile_Op<"stage_value", [MemoryEffects<[MemWrite]>]> {
  let summary = "stores a tile into staged memory; seen by all threads after the next tile.stage_wait";
  let arguments = (ins Tile_Tile:$value, I64Attr:$offset);
  let assemblyFormat = "$value `to` $offset attr-dict `:` type($value)";
}

def Tile_StageCommitOp : Tile_Op<"stage_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ends a group of copies";
  let assemblyFormat = "attr-dict";
}

def Tile_StageWaitOp : Tile_Op<"stage_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` of the last groups are under way, and for all threads";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Tile_StagedOp : Tile_Op<"staged", [MemoryEffects<[MemRead]>]> {
  let summary = "the tile in a slot; products read it where it lies";
  let arguments = (ins I32:$slot, I64Attr:$offset, I64Attr:$slot_bytes);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$offset `[` $slot `]` `slot_bytes` $slot_bytes attr-dict `:` type($result)";
}

def Tile_DotWaitOp : Tile_Op<"dot_wait", [AllTypesMatch<["source", "result"]>, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the result of products that were left under way";
  let arguments = (ins Tile_Tile:$source);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($result)";
}

#endif
