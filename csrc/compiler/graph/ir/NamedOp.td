// What the files of named ops share: the base class, family traits and attribute kinds.
#ifndef TORCH_TILE_NAMED_OP_TD
#define TORCH_TILE_NAMED_OP_TD

include "compiler/graph/ir/GraphTypes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Graph_Trait<string name> : NativeOpTrait<name> { let cppNamespace = "::mlir::graph"; }
def Graph_PointwiseTrait : Graph_Trait<"PointwiseTrait">;
def Graph_ViewTrait : Graph_Trait<"ViewTrait">;
def Graph_ReductionTrait : Graph_Trait<"ReductionTrait">;
def Graph_CompositeTrait : Graph_Trait<"CompositeTrait">;

/// An op of tensors that mirrors one of core ATen: `%r = graph.name %a, %b {attributes} : (types) -> types`.
class Graph_NamedOp<string mnemonic, string summaryText, list<Trait> traits = []> : Graph_Op<mnemonic, !listconcat([Pure], traits)> {
  let summary = summaryText;
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// An attribute of several kinds, used as it is stored.
class Graph_AnyOfAttr<string predicate, string summaryText> : Attr<CPred<predicate>, summaryText> {
  let storageType = "::mlir::Attribute";
  let returnType = "::mlir::Attribute";
  let convertFromStorage = "$_self";
}

/// An integer or a size expression; read it with graph::exprOf.
def Graph_IntOrExprAttr : Graph_AnyOfAttr<"::mlir::isa<::mlir::IntegerAttr, ::mlir::graph::ExprAttr>($_self)", "an integer or a size expression">;
/// Integers or size expressions, one per dimension; read it with graph::exprsOfAny.
def Graph_ExprsAttr : Graph_AnyOfAttr<"::mlir::isa<::mlir::DenseI64ArrayAttr, ::mlir::ArrayAttr>($_self)", "integers or size expressions">;
/// `name` or `name = true`; read it with graph::isSet.
def Graph_FlagAttr : OptionalAttr<Graph_AnyOfAttr<"::mlir::isa<::mlir::UnitAttr, ::mlir::BoolAttr>($_self)", "a flag">>;
/// An integer, a float or a bool.
def Graph_ScalarAttr : Graph_AnyOfAttr<"::mlir::isa<::mlir::IntegerAttr, ::mlir::FloatAttr>($_self)", "a number">;

#endif
