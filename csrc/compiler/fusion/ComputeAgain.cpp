#include "compiler/fusion/ComputeAgain.h"

#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/PlaceParts.h"
#include "compiler/graph/ir/Marks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

/// Operations in the time of which a thread issues a load that a near cache serves, and chooses the address of a masked
/// one.
static constexpr double loadWork = 4.5, maskWork = 6;
/// What a quotient and a root take beside what FusionCost counts, where they are rounded correctly on a GPU.
/// Likewise, what brings an angle of any size into one period.
static constexpr int correctionWork = 10, periodWork = 40;
/// Of the time that is saved, what computing again may take: estimates of both are rough, and a kernel that computes
/// for long hides less of what it still moves.
static constexpr double worthwhileShare = 0.5;
/// Of masks a kernel reads so little that computing them again seldom pays.
static constexpr double leastBytes = 2;
/// Ops, each at a place, that are computed anew together.
static constexpr size_t mostOfCone = 128;
/// Pointwise loops through which a value is followed to a reduction.
static constexpr int longestChain = 16;
/// Evaluations for each point from which on a value is computed again, and not only elsewhere.
static constexpr double severalTimes = 1.5;

static bool isPointwise(LoopsOp op) { return !op.isReduction() && !op.getWriteAt() && op.getDests().empty(); }

static LoopsOp readerOf(Operation *user) { return isa<LoadOp>(user) ? user->getParentOfType<LoopsOp>() : LoopsOp(); }

static LoopsOp producerOf(LoadOp load) { return load.getSource().getDefiningOp<LoopsOp>(); }

static double bytesOf(LoopsOp op) {
  double bytes = 0;
  for (Type type : op.getResultTypes())
    bytes += (double)elementBytes(cast<GraphTensorType>(type).getElementType());
  return bytes;
}

bool choosesAmongLoads(LoopsOp op) {
  return llvm::all_of(*op.bodyBlock(), [](Operation &inner) {
    auto load = dyn_cast<LoadOp>(inner);
    return !load || load.getMask();
  });
}

/// Whether whoever reads a concatenation names the part, as of two coordinates that were stacked: nothing is chosen.
static bool isTakenApart(LoopsOp op) {
  auto dim = op->getAttrOfType<IntegerAttr>(kConcatenatedDim);
  return dim && llvm::all_of(op->getUsers(), [&](Operation *user) {
           auto load = dyn_cast<LoadOp>(user);
           return load && load.indexExprs()[dim.getInt()].isConstant();
         });
}

/// Among how many places a point of `op` chooses: it would compute what all of them hold.
static double placesOf(LoopsOp op) {
  bool chooses = choosesAmongLoads(op) && !isTakenApart(op);
  return chooses ? std::max(1.0, (double)llvm::range_size(op.bodyBlock()->getOps<LoadOp>())) : 1;
}

/// At how many places others read a pointwise op, which may be computed at each of them.
static size_t timesRead(LoopsOp op) {
  DenseSet<const void *> places;
  for (Operation *user : op->getUsers()) {
    auto load = dyn_cast<LoadOp>(user);
    if (!load || !isPointwise(op))
      return 1;
    places.insert(load.getIndices().getAsOpaquePointer());
  }
  return std::max<size_t>(places.size(), 1);
}

double ComputeAgain::Evaluation::total() const { return work + loadWork * loads; }
bool ComputeAgain::Evaluation::isTooLarge() const { return ops.size() > mostOfCone; }

double ComputeAgain::pointsOf(LoopsOp op) const { return std::max(1.0, estimatePoints(op, facts)); }

bool ComputeAgain::isWorth(double operations, double bytes, double valueBytes, double points) const {
  double share = valueBytes * points < (double)machine.cachedBytes ? machine.cachedShare : 1;
  return operations < worthwhileShare * machine.operationsPerByte * bytes * share;
}

/// Whether neighbouring points of `op` read neighbours, or the same element.
bool ComputeAgain::followsMemory(LoopsOp op, LoadOp load) {
  SmallVector<AxisAttr> axes = op.axisList();
  if (axes.empty() || !load.getScalars().empty())
    return false;
  SizeExpr offset = linearOffset(sizes, load.indexExprs(), load.getSource().getType().getStrides());
  std::optional<SizeExpr> stride = strideAlong(sizes, offset, axes.back().getName().getValue());
  return stride && (stride->isConstant(1) || stride->isConstant(0));
}

/// Adds what `op` computes where it is read at the places that `path` stands for. Values of `together` are computed in
/// place as well.
void ComputeAgain::evaluate(LoopsOp op, int64_t points, size_t path, const Ops &together, Evaluation &sum) {
  if (!sum.ops.insert({op, path}).second || sum.isTooLarge())
    return;
  BodyCost own = bodyCost(op);
  sum.work += own.work + own.index;
  for (Operation &inner : *op.bodyBlock())
    sum.work += isa<arith::DivFOp, math::SqrtOp>(inner)             ? correctionWork
                : isa<math::SinOp, math::CosOp, math::TanOp>(inner) ? periodWork
                                                                    : 0;
  for (LoadOp load : op.bodyBlock()->getOps<LoadOp>()) {
    LoopsOp producer = producerOf(load);
    size_t place = path;
    if (!readsOwnPoint(load, sizes))
      place = llvm::hash_combine(path, load.getIndices().getAsOpaquePointer());
    if (producer && (inlined.contains(producer) || together.contains(producer))) {
      evaluate(producer, points, place, together, sum);
      continue;
    }
    if (!sum.places.insert({load.getSource(), place}).second)
      continue;
    sum.loads += load.getScalars().empty() ? 1 : 2;
    sum.work += load.getMask() ? maskWork : 0;
    sum.followsReduction |= producer && producer.isReduction() && place == path;
    // Several taps bring one element each from memory.
    auto elements = (double)facts.estimate(load.getSource().getType().numElements());
    if (sum.sources.insert(load.getSource()).second && elements > (double)points / 4) {
      double share = followsMemory(op, load) ? std::min(1.0, elements / (double)points) : 1;
      sum.largeBytes += share * (double)elementBytes(load.getType());
    }
  }
}

LoopsOp ComputeAgain::lastReader(LoopsOp op) {
  // Without recursion: a program may be one long chain.
  SmallVector<LoopsOp> open{op};
  while (!open.empty()) {
    LoopsOp each = open.back();
    if (lastReaders.contains(each)) {
      open.pop_back();
      continue;
    }
    LoopsOp last;
    bool goesOn = isPointwise(each) && !each->use_empty(), isReady = true;
    for (Operation *user : each->getUsers()) {
      LoopsOp reader = readerOf(user);
      if (!reader || pointsOf(reader) > 2 * pointsOf(each))
        goesOn = false;
      if (!goesOn)
        break;
      auto known = lastReaders.find(reader);
      if (known == lastReaders.end()) {
        open.push_back(reader);
        isReady = false;
        break;
      }
      goesOn = !last || last == LoopsOp(known->second);
      last = LoopsOp(known->second);
    }
    if (!isReady)
      continue;
    lastReaders[each] = goesOn ? last : each;
    open.pop_back();
  }
  return LoopsOp(lastReaders.lookup(op));
}

/// Over which of the dimensions of `op` a reduction runs that its reader is part of; nothing if there is none, or if it
/// reads at other points.
std::optional<llvm::SmallBitVector> ComputeAgain::reducedBy(LoadOp load) {
  for (int k = 0; k < longestChain; ++k) {
    auto reader = load->getParentOfType<LoopsOp>();
    if (reader.isReduction()) {
      llvm::SmallBitVector dims(load.indexExprs().size());
      for (auto [dim, index] : llvm::enumerate(load.indexExprs()))
        dims[dim] = llvm::any_of(reader.reducedAxes(),
                                 [e = index](AxisAttr axis) { return e.contains(axis.getName().getValue()); });
      return dims;
    }
    if (!readsOwnPoint(load, sizes) || reader->use_empty())
      return std::nullopt;
    load = dyn_cast<LoadOp>(*reader->user_begin());
    if (!load)
      return std::nullopt;
  }
  return std::nullopt;
}

/// Whether all readers are at the same point: they share the op's kernel, where they have the value in registers.
/// Reductions over different dimensions do not.
bool ComputeAgain::isAtHand(LoopsOp op) {
  std::optional<llvm::SmallBitVector> reduced;
  for (Operation *user : op->getUsers())
    if (std::optional<llvm::SmallBitVector> dims = reducedBy(cast<LoadOp>(user))) {
      if (reduced && *reduced != *dims)
        return false;
      reduced = dims;
    }
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    LoopsOp reader = readerOf(user);
    return readsOwnPoint(cast<LoadOp>(user), sizes) && pointsOf(reader) == pointsOf(op) &&
           pointsOf(lastReader(reader)) == pointsOf(op);
  });
}

bool ComputeAgain::pays(LoopsOp op) {
  double points = pointsOf(op), bytes = bytesOf(op);
  // A choice of what is in memory is no value to keep, unless each point would compute what all the places hold.
  bool isChoice = choosesAmongLoads(op);
  bool computesPlaces =
      isChoice && !isTakenApart(op) && llvm::any_of(op.bodyBlock()->getOps<LoadOp>(), [&](LoadOp load) {
        LoopsOp producer = producerOf(load);
        return producer && inlined.contains(producer) && bodyCost(producer).work > 0;
      });
  if (bytes < leastBytes || computesPlaces || (!isChoice && isAtHand(op)))
    return false;
  double evaluations = 0;
  llvm::SmallPtrSet<Operation *, 4> kernels;
  DenseSet<std::pair<Operation *, const void *>> places;
  for (Operation *user : op->getUsers()) {
    LoopsOp reader = readerOf(user);
    if (mayPlaceParts(reader, facts))
      return false;
    if (places.insert({reader, cast<LoadOp>(user).getIndices().getAsOpaquePointer()}).second)
      evaluations += pointsOf(reader) / points * (double)timesRead(reader) * placesOf(reader);
    kernels.insert(lastReader(reader));
  }
  Evaluation each;
  evaluate(op, (int64_t)points, 0, {}, each);
  if (each.isTooLarge() || each.followsReduction)
    return false;
  auto readings = (double)kernels.size();
  double again = evaluations * (each.total() - loadWork) - each.total() - loadWork;
  return isWorth(again, bytes + bytes * readings - each.largeBytes * (readings - 1), bytes, points);
}

/// The readers with what is computed in them and nowhere else, and for how many points.
ComputeAgain::Ops ComputeAgain::computedWithin(ArrayRef<LoopsOp> readers, DenseMap<Operation *, double> &evaluated) {
  Ops within;
  for (LoopsOp reader : readers) {
    within.insert(reader);
    evaluated[reader] = pointsOf(reader);
  }
  // Later ops first, so that all readers of an op have been looked at when it is.
  auto isWithin = [&](Operation *user) {
    LoopsOp reader = readerOf(user);
    return reader && within.contains(reader);
  };
  for (size_t k = 0; k < within.size(); ++k)
    for (LoadOp load : LoopsOp(within[k]).bodyBlock()->getOps<LoadOp>())
      if (LoopsOp producer = producerOf(load); producer && inlined.contains(producer) &&
                                               llvm::all_of(producer->getUsers(), isWithin) && within.insert(producer))
        evaluated[producer] = evaluated[within[k]];
  return within;
}

std::optional<ComputeAgain::Cone> ComputeAgain::coneOf(ArrayRef<LoopsOp> readers,
                                                       llvm::function_ref<bool(LoopsOp)> mayInline) {
  if (llvm::any_of(readers, [&](LoopsOp reader) { return mayPlaceParts(reader, facts); }))
    return std::nullopt;
  DenseMap<Operation *, double> evaluated;
  Ops within = computedWithin(readers, evaluated), cone, outside;
  // A reader that others compute as well would take the cone to them.
  auto isElsewhere = [&](LoopsOp reader) {
    return inlined.contains(reader) && !llvm::all_of(reader->getUsers(), [&](Operation *user) {
             LoopsOp other = readerOf(user);
             return other && within.contains(other);
           });
  };
  if (llvm::any_of(readers, isElsewhere))
    return std::nullopt;
  double points = 0;
  auto isCandidate = [&](LoopsOp op) {
    return op && !inlined.contains(op) && isPointwise(op) && (points == 0 || pointsOf(op) == points) && mayInline(op);
  };
  // Nobody else needs it, but ops that run over the same points and so have it at hand.
  auto add = [&](LoopsOp op) {
    SmallVector<LoopsOp> others;
    for (Operation *user : op->getUsers()) {
      LoopsOp reader = readerOf(user);
      if (reader && (within.contains(reader) || cone.contains(reader)))
        continue;
      if (!reader || pointsOf(reader) != pointsOf(op) || inlined.contains(reader) ||
          !readsOwnPoint(cast<LoadOp>(user), sizes))
        return false;
      others.push_back(reader);
    }
    for (LoopsOp reader : others)
      outside.insert(reader);
    return cone.insert(op);
  };
  SmallVector<LoopsOp> roots;
  llvm::SmallDenseMap<Operation *, double> evaluations;
  DenseSet<std::pair<Value, const void *>> places;
  for (Operation *reader : within)
    for (LoadOp load : LoopsOp(reader).bodyBlock()->getOps<LoadOp>()) {
      LoopsOp producer = producerOf(load);
      if (!isCandidate(producer) || (readsOwnPoint(load, sizes) && pointsOf(producer) == evaluated[reader]))
        continue;
      if (!cone.contains(producer)) {
        if (!add(producer))
          continue;
        points = pointsOf(producer);
        roots.push_back(producer);
      }
      if (places.insert({load.getSource(), load.getIndices().getAsOpaquePointer()}).second)
        evaluations[producer] += evaluated[reader] / points * placesOf(LoopsOp(reader));
    }
  double most = 0, bytes = 0;
  for (LoopsOp root : roots) {
    most = std::max(most, evaluations[root]);
    bytes += bytesOf(root);
  }
  if (most <= severalTimes)
    return std::nullopt;
  for (size_t k = 0; k < cone.size() && cone.size() <= mostOfCone; ++k)
    for (LoadOp load : LoopsOp(cone[k]).bodyBlock()->getOps<LoadOp>())
      if (LoopsOp producer = producerOf(load); isCandidate(producer) && !cone.contains(producer))
        add(producer);
  Evaluation each;
  for (LoopsOp root : roots)
    evaluate(root, (int64_t)points, 0, cone, each);
  if (cone.size() > mostOfCone || each.isTooLarge() || each.followsReduction)
    return std::nullopt;
  double loads = loadWork * (double)roots.size();
  double again = most * (each.total() - loads) - each.total() - loads;
  if (!isWorth(again, 2 * bytes + (double)machine.bytesPerLaunch / points, bytes, points))
    return std::nullopt;
  Cone found;
  found.operations = (int)(each.work + each.loads);
  for (Operation *op : cone)
    found.ops.push_back(LoopsOp(op));
  for (const Ops *list : {&within, &outside})
    for (Operation *op : *list)
      if (!cone.contains(op))
        found.readers.push_back(LoopsOp(op));
  return found;
}

} // namespace torch_tile::fusion
