// The tile dialect, its types and attributes, and the constraints that its ops share.
#ifndef TORCH_TILE_TILE_BASE_TD
#define TORCH_TILE_TILE_BASE_TD

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
  I32EnumAttrCase<"Exchange", 8, "xchg">, I32EnumAttrCase<"Maximum", 9, "maximum">, I32EnumAttrCase<"Minimum", 10, "minimum">]> {
  let cppNamespace = "::mlir::tile";
}

#endif
