// The tile dialect: one program of a grid over tiles of static shape.
#ifndef TORCH_TILE_TILE_OPS_TD
#define TORCH_TILE_TILE_OPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::mlir::tile";
  let summary = "Kernels: one program of a grid over tiles";
  let description = [{
    Tile values are builtin tensors of static shape (`tensor<64xf32>`), scalars are plain scalars; arithmetic is `arith` and `math` on either, control flow is `scf`.
    Memory is reached through `!tile.ptr<T>` with offsets and strides in elements. `i1` elements take one byte in memory.
    An encoding on a tile type says how it lies over the threads of a GPU; on CPU there is none.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

def Tile_Ptr : TypeDef<Tile_Dialect, "Ptr"> {
  let mnemonic = "ptr";
  let summary = "a pointer to elements of one type";
  let parameters = (ins "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
}

def Tile_Layout : AttrDef<Tile_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "how a tile lies over the threads of a block";
  let description = [{
    The elements in row-major order are dealt out in pieces of `vector` neighbours: piece p of thread t starts at element (p * threads + t) * vector. Threads beyond
    the last element hold copies, counted from the first element again. `vector` divides the number of elements.
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$vector);
  let assemblyFormat = "`<` struct(params) `>`";
  let extraClassDeclaration = [{
    /// Pieces per thread of a tile of `numElements`.
    int64_t getNumPieces(int64_t numElements) const { return (numElements + getThreads() * getVector() - 1) / (getThreads() * getVector()); }
  }];
}

def Tile_Scalar : AnyTypeOf<[AnyInteger, AnyFloat, Index, Tile_Ptr], "a scalar">;
def Tile_Tile : RankedTensorOf<[AnyInteger, AnyFloat, Index, Tile_Ptr], [HasStaticShapePred], "a tile">;
def Tile_Value : AnyTypeOf<[Tile_Scalar, Tile_Tile]>;
def Tile_BoolLike : AnyTypeOf<[I1, RankedTensorOf<[I1]>]>;
def Tile_OffsetLike : AnyTypeOf<[I32, I64, RankedTensorOf<[I32, I64]>]>;

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
  let description = "Elements with i_k >= valid_k on any axis are not written.";
  let arguments = (ins Tile_Value:$value, Tile_Ptr:$base, I64:$offset, Variadic<I64>:$strides, DenseI64ArrayAttr:$static_strides,
                       Variadic<I64>:$valid);
  let assemblyFormat = [{
    $value `,` $base `[` $offset `]` `strides` custom<StrideList>($strides, $static_strides) (`valid` `[` $valid^ `]`)? attr-dict
    `:` type($value) `,` qualified(type($base))
  }];
  let hasVerifier = 1;
}

def Tile_GatherOp : Tile_Op<"gather", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "element i comes from base + offsets[i]; masked-off lanes are not read and hold `other` (0 if absent)";
  let arguments = (ins Tile_Ptr:$base, Tile_OffsetLike:$offsets, Optional<Tile_BoolLike>:$mask, Optional<AnyType>:$other);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = [{
    $base `[` $offsets `]` (`mask` $mask^ `:` type($mask))? (`other` $other^ `:` type($other))? attr-dict `:` qualified(type($base)) `,` type($offsets) `->` type($result)
  }];
}

def Tile_ScatterOp : Tile_Op<"scatter", [MemoryEffects<[MemWrite]>]> {
  let summary = "element i goes to base + offsets[i]; where offsets collide, the last lane wins (on GPU: one of them)";
  let arguments = (ins Tile_Value:$value, Tile_Ptr:$base, Tile_OffsetLike:$offsets, Optional<Tile_BoolLike>:$mask);
  let assemblyFormat = [{
    $value `,` $base `[` $offsets `]` (`mask` $mask^ `:` type($mask))? attr-dict `:` type($value) `,` qualified(type($base)) `,` type($offsets)
  }];
}

def Tile_PtrAddOp : Tile_Op<"ptr_add", [Pure, AllTypesMatch<["base", "result"]>]> {
  let summary = "a pointer some elements on";
  let arguments = (ins Tile_Ptr:$base, I64:$offset);
  let results = (outs Tile_Ptr:$result);
  let assemblyFormat = "$base `,` $offset attr-dict `:` qualified(type($result))";
}

def Tile_ScratchOp : Tile_Op<"scratch", [Pure]> {
  let summary = "memory of this program alone, `offset` bytes into its scratch space; undefined at the start";
  let arguments = (ins I64:$offset);
  let results = (outs Tile_Ptr:$result);
  let assemblyFormat = "$offset attr-dict `:` qualified(type($result))";
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

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ParentOneOf<["ReduceOp"]>]> {
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

#endif
