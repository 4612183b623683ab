// From loops to kernels: which computations share one. Every yes and no is recorded.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"
#include "compiler/target/GpuMachine.h"
#include "support/ExprBudget.h"

#include <string>
#include <vector>

namespace torch_tile::fusion {

/// How much parallelism the target wants. Fixed per target, so that results do not depend on the machine.
struct Machine {
  /// Programs that keep every thread of it busy, and below how many it is worth a second kernel to have more.
  int64_t wantedPrograms = 64, fewPrograms = 16;
  /// Below this many elements a second kernel costs more than the parallelism brings.
  int64_t smallReduction = 1 << 16;
  /// Elements per partial result.
  int64_t minChunk = 4096;
  /// Results that one program of a column reduction takes: on a processor, runs of a page or two of memory.
  int64_t columnsPerProgram = 1024;
  /// Rows that a piece of a column reduction has at least, so that partial results are few beside what is read.
  int64_t fewestRows = 32;
  /// Elements that rows of a few columns, taken as one, have at most: a page of memory. 0: rows stay by themselves.
  int64_t elementsOfRows = 1024;
  /// What a load under a mask adds to the size of a kernel beside what other loads do, in operations: on GPU each
  /// element chooses its address, and the time of the assembler grows with the square of all.
  int64_t branchCost = 0;
  /// Whether an index that wraps around is better than two loads under masks.
  bool mergesLoads = false;
  /// Reduced neighbours in memory, in bytes, from which on a program takes one result at a time; shorter runs are taken
  /// together with the results that lie between them. 0: always one result at a time.
  int64_t shortRunBytes = 0;
  /// Programs below which a reduction does not take along the pointwise work that follows it.
  int64_t fewJoinedPrograms = 8;
  /// Bytes that a block of threads holds, and that it reads at least of each row across which it walks: what is reduced
  /// along one axis and written along another passes through it. 0: through a cache.
  int64_t tileBytes = 0, columnBytes = 0;
  /// Bytes that the near cache of a program and its neighbours holds.
  int64_t nearBytes = 0;
  /// Whether long scans of few results go in three kernels.
  bool splitsScans = false;
  /// Whether scatters whose points are parallel share kernels with each other and with pointwise work, and update
  /// copies where many points meet.
  bool joinsScatters = false;
  /// Whether a maximum and the sum of exponentials relative to it are one reduction also where no program has several
  /// pieces of a row to join: a processor reads its columns and its short rows again, and computes an exponential once.
  bool joinsWholeExponentialSums = false;
  /// Whether sums of three or four points are better pointwise: a thread has all of them.
  bool unrollsReductions = false;
  /// Parts of one element along the innermost axis, up to which a kernel makes vectors of each and interleaves them: a
  /// processor's registers.
  int64_t mostInterleaved = 16;
  /// Whether sums of vectors that are weighted are better one for each component: a thread has the weights.
  bool splitsVectors = false;
  /// What memory moves, in bytes, in the time that one kernel more takes to begin.
  int64_t bytesPerLaunch = 16 << 10;
  /// Operations that all threads do while memory moves a byte: what it takes to compute a value again is weighed
  /// against the bytes that this saves. 0: only what takes next to nothing is computed again.
  double operationsPerByte = 0;
  /// Bytes of a value that the last cache keeps from one kernel to the next, and the share of the time that moving them
  /// takes then.
  int64_t cachedBytes = 0;
  double cachedShare = 1;
  /// Whether neighbours are read as fast at indices that are computed for each as in a run.
  bool computesIndices = false;

  static Machine gpu(const target::GpuMachine &device = {});
};

/// What one kernel may hold: beyond it bodies spill registers and compile slowly, so a value goes to memory. The units
/// are those of FusionCost.h.
struct FusionBudget {
  /// Operations of one body with all that is inlined into it, and of a kernel of several bodies.
  int bodyWork = 600, groupWork = 1200;
  /// Nodes of one index expression, written out as a tree.
  uint32_t indexNodes = defaultIndexNodes;
};

struct FusionOptions {
  bool enabled = true; // off: one kernel per loops op, for tests and bisection
  /// Values that never reach memory may stay in the type in which they are computed. Off, all round as eager's do.
  bool elideRoundings = true;
  Machine machine;
  FusionBudget budget;
};

/// One choice that the fuser made, by lines of the graph text.
struct FusionDecision {
  enum class Kind { Inline, Split, Join, Place } kind;
  bool taken;
  int producerLine, consumerLine; // 0 where there is none
  std::string reason;
  bool isForBudget = false; // no, because a kernel would take too long to compile
};
std::string print(llvm::ArrayRef<FusionDecision> decisions);

/// Turns reductions over axes of one point into pointwise loops. The other passes start with it: they take reductions
/// to fold something.
void dropUnitReductions(mlir::graph::FuncOp func);

/// Turns reductions of a few points whose results another reduction takes, but for pointwise work between, into
/// pointwise loops: one kernel then holds both.
///
/// Numerics: the points are combined in order.
///
/// \param always  those of four points at most as well, whoever reads them, unless what they fold takes long to
/// compute.
void unrollShortReductions(mlir::graph::FuncOp func, bool always);

/// Makes index expressions of integers that depend on axes and sizes alone, in values, masks and accesses, up to
/// `maxIndexNodes` each.
void foldIndices(mlir::graph::FuncOp func, uint32_t maxIndexNodes = defaultIndexNodes);

/// Replaces sums in which one element at most differs from 0 (`r == v ? a : 0`, as the backward of cross entropy makes
/// them) by that element.
///
/// Numerics: exact, but that a sum of zeros is +0 and this may be -0.
void collapseOneHotReductions(mlir::graph::FuncOp func);

/// Makes one load of two of the same tensor, of which the choice between `i < b` and its opposite takes one, where the
/// positions follow one another around the end: `Mod(i + c, n)`. Where one such choice follows another.
void mergeLoads(mlir::graph::FuncOp func);

/// Lets scatters write into their operand instead of a copy of it where nobody can tell.
void reuseBuffers(mlir::graph::FuncOp func);

/// Gives the elements that the points of a scatter update again and again several copies, which are folded afterwards:
/// threads then seldom wait for each other's updates. For GPUs, where points are parallel.
///
/// Numerics: the order of combination is free, as it was.
void splitScatters(mlir::graph::FuncOp func, std::vector<FusionDecision> &decisions);

/// Substitutes pointwise producers into the loads of their consumers where that saves memory traffic.
void inlineProducers(mlir::graph::FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions);

/// Leaves out choices by a mask whose results are only seen where the same mask holds, and masks that most
/// points meet, of loads that lie within their tensor at all points.
///
/// Numerics: none. Where the mask does not hold, what nobody sees differs.
void simplifyMasks(mlir::graph::FuncOp func);

/// Makes a maximum and the sum of exponentials relative to it one reduction of pairs, where they would read what they
/// reduce twice. For GPUs.
///
/// Numerics: exponentials of differences to the largest value so far, and products of those.
void joinExponentialSums(mlir::graph::FuncOp func, const FusionOptions &options,
                         std::vector<FusionDecision> &decisions);

/// Splits reductions that one program per result would leave without parallelism into partial results and a second
/// reduction.
///
/// Numerics: the order of combination depends on sizes only.
void splitReductions(mlir::graph::FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions);

/// Makes a reduction of vectors of two to four components one reduction for each of them, where the vectors have
/// weights that would be in memory for them alone. For GPUs.
///
/// Numerics: none.
void splitVectors(mlir::graph::FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions);

/// Cuts a scan that one scan for each result would leave without parallelism into pieces: their folds, a scan of those,
/// and scans of the pieces, each of which begins with the fold of all before it. For GPUs.
///
/// Numerics: the order of combination depends on sizes only.
void splitScans(mlir::graph::FuncOp func, std::vector<FusionDecision> &decisions);

/// Gives values that only loops read the order in memory of what they are computed of and read with.
void chooseStrides(mlir::graph::FuncOp func);

/// Puts loops that share data into graph.fusion groups; afterwards every loops op is in one.
void formGroups(mlir::graph::FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions);

/// Leaves out the marked roundings of values that never reach memory.
///
/// Numerics: such a value keeps the bits of the type in which it is computed, for all that reads it.
void elideRoundings(mlir::graph::FuncOp func);

/// The whole stage, in this order: buffers first, while copies are still copies; inlining next, since it shapes the
/// domains; pairs of sums before splits, which cut them as a whole; splits before groups, since a split reduction joins
/// other groups than a whole one; strides once all values that may reach memory are there; roundings last, when it is
/// known what reaches memory.
void fuse(mlir::graph::FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions);

} // namespace torch_tile::fusion
