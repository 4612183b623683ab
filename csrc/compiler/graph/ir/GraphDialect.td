#ifndef TORCH_TILE_GRAPH_DIALECT_TD
#define TORCH_TILE_GRAPH_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::mlir::graph";
  let summary = "Tensor programs with symbolic sizes, before and after they become loops";
  let description = [{
    The text of this dialect is what the runtime hands to the compiler. Named ops mirror core ATen; after `graph-lower-to-loops` everything that
    is generated is `graph.loops`, and what is not stays `graph.extern`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    /// Sizes and index expressions of everything in this MLIR context.
    ::torch_tile::SizeContext &sizes() { return *sizeContext; }
    static ::torch_tile::SizeContext &sizes(::mlir::MLIRContext *context);
    /// Of arguments of graph.func: a tensor that does not begin at a multiple of 16 bytes.
    static constexpr ::llvm::StringLiteral unalignedAttrName = "graph.unaligned";

  private:
    void registerTypes();
    void registerAttributes();
    std::unique_ptr<::torch_tile::SizeContext> sizeContext;

  public:
  }];
}

class Graph_Op<string mnemonic, list<Trait> traits = []> : Op<Graph_Dialect, mnemonic, traits>;
class Graph_Type<string name, string typeMnemonic> : TypeDef<Graph_Dialect, name> { let mnemonic = typeMnemonic; }
class Graph_Attr<string name, string attrMnemonic> : AttrDef<Graph_Dialect, name> { let mnemonic = attrMnemonic; }

#endif
