// Sums in blocks: the error of a sum grows with the number of terms that one accumulator takes. A long loop goes block
// by block; each block starts from the identity, and what blocks give is added up in the same way.
#include "compiler/tile/build/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {

/// Terms that an accumulator takes: 16 as in eager mode, for equal terms all round the same way. A thread of a GPU has
/// many accumulators, whose registers a block would need twice.
static constexpr int64_t mostTermsOfLane = 16, mostTermsOfThread = 256;
/// Levels of loops over a size that is not known, which may be much larger than the one that was seen.
static constexpr int unknownLevelsOfLane = 4, unknownLevelsOfThread = 3;

/// Whether the order of combination changes what is rounded.
static bool rounds(LoopsOp op) {
  return op.isReduction() && llvm::any_of(op.getCombine().front(),
                                          [](Operation &inner) { return isa<arith::AddFOp, arith::MulFOp>(inner); });
}

KernelEmitter::SumBlocks::SumBlocks(KernelEmitter &emitter, ArrayRef<Reduction> items, ValueRange initial)
    : emitter(emitter), items(items), initial(initial) {
  if (llvm::any_of(items, [](const Reduction &item) { return rounds(item.member->op); }) && !emitter.loops.isOrdered())
    emitter.sumBlocks = this;
}

/// Adds the results of a block to what came before it.
KernelEmitter::ValueList KernelEmitter::SumBlocks::join(ValueRange before, ValueRange block) const {
  // Rows that are folded tile by tile have gone; others are part of the accumulators.
  bool wasInRowLoop = emitter.isInRowLoop;
  emitter.isInRowLoop = emitter.isRowReduced() && !emitter.foldsRowsAtOnce();
  llvm::scope_exit restore([&] { emitter.isInRowLoop = wasInRowLoop; });
  ValueList joined;
  for (const Reduction &item : items) {
    LoopsOp op = item.member->op;
    if (!op.isReduction())
      continue;
    size_t first = joined.size(), count = op.getNumResults();
    joined.append(emitter.combine(op.getCombine(), before.slice(first, count), block.slice(first, count),
                                  emitter.accumulatorShape(), item.kinds));
  }
  return joined;
}

bool KernelEmitter::SumBlocks::isInitial(ValueRange values, size_t first) const {
  return emitter.sumBlocks == this && llvm::equal(values, initial.slice(first, values.size()));
}

/// Steps of one iteration of a loop, one after the other. A thread of a GPU joins what sums take in pairs before it
/// adds that to what it carries: fewer operations wait for one another, and what combiners compute of counts is known.
KernelEmitter::ValueList KernelEmitter::emitSteps(int64_t count, ValueRange carried,
                                                  llvm::function_ref<ValueList(int64_t, ValueRange)> step) {
  ValueList values(carried);
  if (!options.isGpu || !sumBlocks || carried.empty() || count < 2) {
    for (int64_t k = 0; k < count; ++k)
      values = step(k, values);
    return values;
  }
  SmallVector<ValueList> parts; // of 2^k steps each, by the bits of how many there were
  for (int64_t k = 0; k < count; ++k) {
    parts.push_back(step(k, sumBlocks->initial));
    for (int64_t done = k + 1; done % 2 == 0; done /= 2) {
      ValueList last = parts.pop_back_val();
      parts.back() = sumBlocks->join(parts.back(), last);
    }
  }
  for (ValueList &part : parts)
    values = sumBlocks->join(values, part);
  return values;
}

static int64_t tripsOf(int64_t extent, int64_t step) {
  return (int64_t)llvm::divideCeil((uint64_t)std::max<int64_t>(extent, 1), (uint64_t)step);
}

static int64_t product(int64_t a, int64_t b) {
  int64_t result;
  return llvm::MulOverflow(a, b, result) ? std::numeric_limits<int64_t>::max() : result;
}

int64_t KernelEmitter::mostTerms() const { return options.isGpu ? mostTermsOfThread : mostTermsOfLane; }

/// Terms that an accumulator takes from the loops over reduced axes from number `axis` on.
int64_t KernelEmitter::termsFrom(unsigned axis) const {
  int64_t terms = 1;
  for (int k = 0; k < (int)loops.axes.size(); ++k) {
    int64_t step = k == schedule.vectorAxis ? schedule.lanes : k == schedule.rowAxis ? schedule.rows : 1;
    bool isTiled = k == schedule.vectorAxis || k == schedule.rowAxis;
    if (loops.axes[k].reduced && (isTiled || k >= (int)axis))
      terms = product(terms, tripsOf(loops.facts().estimate(loops.axes[k].extent), step));
  }
  return terms;
}

/// Iterations of `trips` that make a block of blocks of `part`: whole ones if a number near to `most` gives those.
static int64_t blockOf(int64_t trips, int64_t part, int64_t most, bool isKnown) {
  for (int64_t count = most; isKnown && 2 * count > most; --count)
    if (trips % product(part, count) == 0)
      return product(part, count);
  return product(part, most);
}

/// How far loops over blocks go at once, the innermost first. `terms` come from one iteration.
SmallVector<int64_t> KernelEmitter::blockSteps(SizeExpr extent, int64_t step, int64_t terms) const {
  bool isKnown = extent.isConstant();
  int64_t trips = tripsOf(loops.facts().estimate(extent), step);
  if (!isKnown) {
    int64_t most = 1;
    for (int level = 1; level < (options.isGpu ? unknownLevelsOfThread : unknownLevelsOfLane); ++level)
      most = product(most, mostTerms());
    trips = std::min(tripsOf(loops.facts().range(extent).max, step), std::max(trips, most + 1));
  }
  SmallVector<int64_t> steps;
  int64_t block = blockOf(trips, 1, std::max<int64_t>(1, mostTerms() / terms), isKnown);
  for (; block < trips; block = blockOf(trips, block, mostTerms(), isKnown))
    steps.push_back(product(block, step));
  return steps;
}

static std::optional<int64_t> distance(Value low, Value high) {
  APInt first, last;
  if (matchPattern(low, m_ConstantInt(&first)) && matchPattern(high, m_ConstantInt(&last)))
    return (last - first).getSExtValue();
  return std::nullopt;
}

KernelEmitter::ValueList KernelEmitter::emitReducedFor(Value low, Value high, int64_t step, SizeExpr extent,
                                                       int64_t terms, ValueRange carried, LoopFn body) {
  if (!sumBlocks || carried.empty())
    return emitFor(low, high, step, carried, body);
  const SumBlocks &blocks = *sumBlocks;
  // An iteration of many terms is a block by itself.
  bool isBlock = 2 * terms > mostTerms();
  auto iteration = [&](Value index, ValueRange before) -> ValueList {
    return isBlock ? blocks.join(before, body(index, blocks.initial)) : body(index, before);
  };
  SmallVector<int64_t> steps = blockSteps(extent, step, isBlock ? 1 : terms);
  std::function<ValueList(size_t, Value, Value, std::optional<int64_t>, ValueRange)> emit =
      [&](size_t level, Value first, Value last, std::optional<int64_t> length, ValueRange before) -> ValueList {
    if (level == 0)
      return emitFor(first, last, step, before, iteration);
    int64_t block = steps[level - 1];
    bool isWhole = length && *length % block == 0;
    return emitFor(first, last, block, before, [&](Value index, ValueRange sums) {
      Value end = reuse(arith::AddIOp::create(builder, index, exprs.constant(block)));
      if (!isWhole)
        end = reuse(arith::MinSIOp::create(builder, end, last));
      std::optional<int64_t> inside = isWhole ? std::optional(block) : std::nullopt;
      return blocks.join(sums, emit(level - 1, index, end, inside, blocks.initial));
    });
  };
  return emit(steps.size(), low, high, distance(low, high), carried);
}

} // namespace torch_tile::tile_build
