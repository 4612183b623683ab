#ifndef TORCH_TILE_FUSION_PASSES_TD
#define TORCH_TILE_FUSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def InlineProducers : Pass<"graph-inline-producers", "::mlir::graph::FuncOp"> {
  let summary = "Substitutes pointwise producers into the loads of their consumers";
  let description = [{
    Before / after: `%a = loops {exp(x)}; %b = loops {load %a + 1}`  ->  `%b = loops {exp(x) + 1}`.
    Needs:    everything generatable is graph.loops (graph-lower-to-loops).
    Keeps:    values that something else than loops reads; values too costly to compute again in each of several uses or for each point of a larger consumer.
    What would make a body larger than `body-budget` operations, or an index expression larger than `index-budget` nodes, stays in memory.
    Numerics: none.
    Why here: what is inlined shapes the domains that splitting and grouping look at.
  }];
  let options = [
    Option<"bodyBudget", "body-budget", "int", "600", "Operations of one body with all that is inlined into it">,
    Option<"indexBudget", "index-budget", "unsigned", "160", "Nodes of one index expression">
  ];
}

def MergeLoads : Pass<"graph-merge-loads", "::mlir::graph::FuncOp"> {
  let summary = "Makes one load of two of the same tensor, of which a comparison chooses one";
  let description = [{
    Before / after: `%a = load %x ["i + 5"]; %b = load %x ["i - 3"]; select (i < 3), %a, %b`  ->  `load %x ["Mod(i + 5, 8)"]`.
    Needs:    everything generatable is graph.loops (graph-lower-to-loops).
    Keeps:    choices between tensors, positions that do not follow one another around the end, and a choice by itself, whose rows are read in whole words.
    Numerics: none.
    Why here: before inlining. A roll along several axes is then one kernel. For GPUs, on which a load under a mask is a branch.
  }];
}

def ReuseBuffers : Pass<"graph-reuse-buffers", "::mlir::graph::FuncOp"> {
  let summary = "Lets scatters write into their operand instead of a copy of it";
  let description = [{
    Before / after: `%c = loops {load %x}; %s = loops into(%c) {write_at}; loops into(%x) {load %s}`  ->  `%s = loops into(%x) {write_at}`.
    The copy also goes where it is one of a buffer that loops made and nobody reads after the scatter.

    Needs:    everything generatable is graph.loops (graph-lower-to-loops).
    Keeps:    what anybody reads of the operand; graph inputs that receive something else.
    Numerics: none.
    Why here: before inlining, which puts computations in the place of copies.
  }];
}

def SplitScatters : Pass<"graph-split-scatters", "::mlir::graph::FuncOp"> {
  let summary = "Gives elements that many points update several copies";
  let description = [{
    Before / after: `1048576 points into(%bins : [16]) write_at ["x0"]`  ->  zeros of [16, 1024], `write_at ["x0", "Mod(i0, 1024)"]` into them,
    `reduce [16, 1024] -> [16]`, and its sum with `%bins`.
    Copies lie side by side, or outermost where neighbouring points update neighbouring elements.

    Needs:    copies of operands are gone where they may be (graph-reuse-buffers), so that scatters into one buffer follow one another.
    Keeps:    scatters whose points go in order, and those of few points for each element. For GPUs.
    Numerics: reassociates the combiner, whose order is free.
    Why here: before inlining. What was there before is computed where the fold is added to it.
  }];
}

def SimplifyMasks : Pass<"graph-simplify-masks", "::mlir::graph::FuncOp"> {
  let summary = "Leaves out choices and masks of padded values that nothing sees";
  let description = [{
    Before / after: `%b = select %m, %a, 0; select %m, (negf %b), 0`  ->  `select %m, (negf %a), 0`;
                    `load %x ["i"] mask (i < 255)` of 256 elements  ->  `load %x ["i"]`.
    Needs:    everything generatable is graph.loops (graph-lower-to-loops).
    Keeps:    masks that few points meet, whose loads would read in vain, and choices before integer divisions.
    Numerics: none.
    Why here: after inlining, which puts a mask on each load and each value of a padded producer.
  }];
}

def JoinExponentialSums : Pass<"graph-join-exponential-sums", "::mlir::graph::FuncOp"> {
  let summary = "Makes a maximum and the sum of exponentials relative to it one reduction of pairs";
  let description = [{
    Before / after: `%m = reduce max {x}; %s = reduce add {exp(x - %m)}`
                ->  `%p:2 = reduce {x, 1} combine (m, s), (n, t): max(m, n), s + t*exp(n - m)` for m >= n.
    Elements of -inf count as none: `%m` is -inf where the sum is 0.

    Needs:    producers are inlined, so that both bodies compute x.
    Keeps:    rows along memory that one program reduces as a whole. Tile building reads them once.
    Reductions of 32 points at most. A thread holds them.
    Columns that a near cache holds, where what follows reads them again. For GPUs.
    Numerics: exponentials of differences to the largest value so far, and products of those.
    Why here: the pair is split as a whole.
  }];
}

def SplitReductions : Pass<"graph-split-reductions", "::mlir::graph::FuncOp"> {
  let summary = "Splits reductions that would run with few programs into partial results and a second reduction";
  let description = [{
    Before / after: `reduce [1048576] -> []`  ->  `reduce [64, 16384] -> [64]`, then `reduce [64] -> []`.
    Needs:    producers are inlined, so that the partial reduction reads what the whole one would.
    Keeps:    reductions with enough results, and small ones.
    Numerics: reassociates the combiner, by sizes only.
    Why here: the two halves join other groups than the whole.
  }];
}

def SplitVectors : Pass<"graph-split-vectors", "::mlir::graph::FuncOp"> {
  let summary = "Makes reductions of short vectors one reduction for each component";
  let description = [{
    Before / after: `reduce add [i0 = n, i1 = 3, reduce r0 = m] {w[i0, r0] * x[i0, r0, i1]}`
                ->  three of `[i0 = n, reduce r0 = m] {w[i0, r0] * x[i0, r0, k]}` and a graph.assemble of copies.

    Needs:    producers are inlined, so that the weights that are left are values in memory.
    Reductions are split: their pieces run over other points than the weights.
    Keeps:    vectors whose weights somebody else reads, are small, or follow a reduction. For GPUs.
    Sums that somebody reads at the points that were summed.
    Numerics: none.
    Why here: the weights and the reductions are of the same points, so that they form a group.
  }];
}

def SplitScans : Pass<"graph-split-scans", "::mlir::graph::FuncOp"> {
  let summary = "Cuts long scans of few results into pieces, in three kernels";
  let description = [{
    Before / after: `scan [1048576]`  ->  `reduce [256, 4096] -> [256]`, a scan of those, and `scan [256, 4096]`, whose pieces begin with what came before them.
    Needs:    producers are inlined, so that the folds of pieces read what the scan does.
    Keeps:    scans that give every thread something to do, and short ones. For GPUs.
    Numerics: reassociates the combiner, by sizes only.
    Why here: what is computed of the results joins the last of the three.
  }];
}

def ChooseStrides : Pass<"graph-choose-strides", "::mlir::graph::FuncOp"> {
  let summary = "Lays values between kernels out in the order of what they are computed of";
  let description = [{
    Before / after: `%m = loops {load %x} -> tensor<[12, 8]>` with x in the order [1, 0]  ->  `tensor<[12, 8], [1, 12]>`.
    Each op that makes or reads the value counts. Its weight is the bytes of the largest tensor that it moves along all
    dimensions of the value.

    Needs:    producers are inlined and reductions split, so that what is left may reach memory.
    Keeps:    results that something else than loads uses. Scans and scatters. Values that are not contiguous.
    Numerics: none.
    Why here: before groups, whose results have these types.
  }];
}

def FormGroups : Pass<"graph-form-groups", "::mlir::graph::FuncOp"> {
  let summary = "Puts loops that share data into graph.fusion groups";
  let description = [{
    Before / after: a row maximum, a row sum and a pointwise op over the same rows  ->  one graph.fusion of three members.
    Needs:    inlined producers and split reductions.
    Keeps:    one group per loops op where nothing can share; the order of effects.
    Numerics: none.
    Why here: last of fusion; tile building takes groups.
  }];
  let options = [
    Option<"joinsScatters", "join-scatters", "bool", "false", "Scatters whose points are parallel share kernels, as on GPU">
  ];
}

def ElideRoundings : Pass<"graph-elide-roundings", "::mlir::graph::FuncOp"> {
  let summary = "Leaves out roundings of values that never reach memory";
  let description = [{
    Before / after: `%r = arith.truncf %s {graph.elidable_rounding}; %w = arith.extf %r`  ->  `%s`, within a body, or between members of a group where nothing
    outside reads the value.
    Needs:    groups (graph-form-groups); marks of graph-lower-to-loops: one op reads the value, and it neither compares nor rounds to integers.
    Keeps:    all other roundings, so that every reader of a value sees the same bits.
    Numerics: values stay in f32 between operations of one kernel.
    Why here: groups say what reaches memory.
  }];
}

#endif
