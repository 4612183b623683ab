#ifndef TORCH_TILE_GRAPH_PASSES_TD
#define TORCH_TILE_GRAPH_PASSES_TD

include "mlir/Pass/PassBase.td"

def DecomposeComposites : Pass<"graph-decompose-composites", "::mlir::graph::FuncOp"> {
  let summary = "Write composite ops with simpler named ops";
  let description = [{
    Decomposes softmax, log_softmax, their backward, layer_norm, mean, and var_mean over short reductions.

    Needs:    nothing.
    Keeps:    results, their types and locations.
    Numerics: f16 and bf16 compute in f32 from end to end and round once.
    Why here: after patterns that look for whole composites, before lowering, which knows only simple ops and Welford's var_mean.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def LowerToLoops : Pass<"graph-lower-to-loops", "::mlir::graph::FuncOp"> {
  let summary = "Make every generated computation a graph.loops";
  let description = [{
    One graph.loops per named op (a second one where a low-precision reduction rounds). Views become index expressions of the loads that go through them; a view
    that must be in memory becomes graph.alias, as does one whose index expressions would grow beyond `index-budget`. full, size_value and iota become constants and index expressions where they are read.

    Needs:    composites are decomposed.
    Keeps:    locations; strides of every value in memory; the order of reads and writes.
    Numerics: ATen's; roundings to f16 and bf16 stay visible as arith.truncf.
    Why here: fusion sees nothing but graph.loops.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let options = [
    Option<"indexBudget", "index-budget", "unsigned", "160", "Nodes of one index expression">,
    Option<"wideScans", "wide-scans", "bool", "true", "Running sums of f32 are carried in f64">,
    Option<"orderedWrites", "ordered-writes", "bool", "true", "Of the points of a scatter that name one element, the last stays">
  ];
}

def RemoveDeadLoops : Pass<"graph-remove-dead-loops", "::mlir::graph::FuncOp"> {
  let summary = "Remove loops and aliases that nothing reads";
  let description = [{
    Needs:    nothing.
    Keeps:    loops that write into existing buffers.
    Why here: lowering copies views that turn out to be read through their index map only.
  }];
}

def SimplifyGraph : Pass<"graph-simplify", "::mlir::graph::FuncOp"> {
  let summary = "Fold identities, merge equal ops, drop unused ones";
  let description = [{
    Folds casts behind exact casts, views that change nothing, and x*1, x/1, x-0 and the like where IEEE arithmetic gives exactly x; merges equal ops; removes
    unused ones.

    Needs:    nothing.
    Keeps:    results bit by bit; which outputs share storage with inputs or with each other.
    Why here: first, so that everything after sees less.
  }];
}

#endif
