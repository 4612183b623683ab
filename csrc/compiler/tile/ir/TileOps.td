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

def Tile_Linear : AttrDef<Tile_Dialect, "Linear"> {
  let mnemonic = "linear";
  let summary = "how a tile lies over the threads of a block, bit by bit";
  let description = [{
    Bit k of a register's number moves an element by `registers[k]` in row-major order, bit k of a thread's number by `threads[k]`; element numbers are the sums.
    A move is a power of two, or 0 for threads that hold copies. Sizes of the tile are powers of two, so each move is along one axis. The registers of the first bits
    whose moves are 1, 2, 4, ... are one piece. Fragments of matrix instructions and their slices along an axis are such layouts:

    ```mlir
    #tile.linear<registers = [1, 64], threads = [2, 4, 8, 16, 32]>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$registers, ArrayRefParameter<"int64_t">:$threads);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Elements of a piece: neighbours in row-major order.
    int64_t getVector() const;
    int64_t getNumPieces() const { return (int64_t(1) << getRegisters().size()) / getVector(); }
    int64_t getNumThreads() const { return int64_t(1) << getThreads().size(); }
    /// Row-major number of a piece's first element in the first thread.
    int64_t getPieceStart(int64_t piece) const;
  }];
  let genVerifyDecl = 1;
}

def Tile_Scalar : AnyTypeOf<[AnyInteger, AnyFloat, Index, Tile_Ptr], "a scalar">;
def Tile_Tile : RankedTensorOf<[AnyInteger, AnyFloat, Index, Tile_Ptr], [HasStaticShapePred], "a tile">;
def Tile_Value : AnyTypeOf<[Tile_Scalar, Tile_Tile]>;
def Tile_PtrTile : RankedTensorOf<[Tile_Ptr], [HasStaticShapePred], "a tile of pointers">;
def Tile_PtrLike : AnyTypeOf<[Tile_Ptr, Tile_PtrTile], "a pointer or a tile of pointers">;
def Tile_BoolLike : AnyTypeOf<[I1, RankedTensorOf<[I1]>]>;
def Tile_OffsetLike : AnyTypeOf<[I32, I64, RankedTensorOf<[I32, I64]>]>;

def Tile_AtomicKind : I32EnumAttr<"AtomicKind", "what an atomic update does", [
  I32EnumAttrCase<"And", 0, "and">, I32EnumAttrCase<"Or", 1, "or">, I32EnumAttrCase<"Xor", 2, "xor">, I32EnumAttrCase<"Add", 3, "add">,
  I32EnumAttrCase<"Max", 4, "max">, I32EnumAttrCase<"Min", 5, "min">, I32EnumAttrCase<"UMax", 6, "umax">, I32EnumAttrCase<"UMin", 7, "umin">,
  I32EnumAttrCase<"Exchange", 8, "xchg">]> {
  let cppNamespace = "::mlir::tile";
}

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
    effect. Masked-off lanes touch nothing and yield 0. Float `max` and `min` follow IEEE maxNum. A `relaxed` update orders nothing else: what programs wrote before
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
