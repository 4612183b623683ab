// Whether one kernel for a group and an op is better than two.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/Group.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Kernels that touch more than this many buffers run out of registers for addresses.
constexpr size_t maxBuffers = 40;
constexpr StringLiteral tooManyBuffers = "the kernel would touch more than 40 buffers";
/// Those that the members read and others made, and the results that something else reads. Values that stay inside are
/// in no buffer.
size_t countBuffers(const Group &group) {
  llvm::SmallPtrSet<Operation *, 16> members;
  for (const Member &member : group.members)
    members.insert(member.op);
  auto isOutside = [&](Operation *user) { return !members.contains(user->getParentOfType<LoopsOp>()); };
  size_t count = llvm::count_if(group.loads, [&](auto &entry) { return !group.producers.contains(entry.first); });
  for (auto &[result, member] : group.producers)
    count += llvm::any_of(result.getUsers(), isOutside);
  return count;
}

/// What a program may read again after a reduction: it must still be in its core's cache.
constexpr int64_t maxRowBytes = 512 << 10;
/// Points from which on idle threads matter.
constexpr int64_t smallWork = 1 << 15;

/// Whether a member's values wait for a reduction of the group.
bool followsReduction(const Group &group, const Member &member) {
  SmallVector<const Member *> work{&member};
  llvm::SmallPtrSet<const Member *, 8> seen;
  while (!work.empty()) {
    const Member *m = work.pop_back_val();
    if (!seen.insert(m).second)
      continue;
    LoopsOp op = m->op;
    for (Operation &inner : *op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner))
        if (auto it = group.producers.find(load.getSource()); it != group.producers.end()) {
          const Member &producer = group.members[it->second];
          if (LoopsOp(producer.op).isReduction())
            return true;
          work.push_back(&producer);
        }
  }
  return false;
}

/// Whether neighbours at `offset`, over the group's axes, are reduced ones; nothing where no axis has neighbours.
std::optional<bool> followsReduced(const Group &group, SizeExpr offset, SizeContext &sizes) {
  for (const Axis &axis : group.axes)
    if (auto stride = strideAlong(sizes, offset, axis.name); stride && stride->isConstant(1))
      return axis.reduced;
  return std::nullopt;
}

/// Whether what is reduced follows memory along other axes than what the last member writes at each of its points, and
/// no block of threads can hold the points between the two.
bool turnsTooMuch(const Group &group, const SizeFacts &facts, const Machine &machine, double reduced) {
  if (machine.tileBytes == 0 || reduced * (double)machine.columnBytes <= (double)machine.tileBytes)
    return false;
  SizeContext &sizes = facts.sizes();
  SizeFacts inner = withAxes(facts, group.axes);
  const Member *from = nullptr, &last = group.members.back();
  LoadOp largest;
  int64_t most = 0;
  for (const Member &member : group.members)
    for (LoadOp load : LoopsOp(member.op).bodyBlock()->getOps<LoadOp>())
      if (int64_t bytes = estimateBytes(load.getSource().getType(), facts);
          bytes > most && !group.producers.contains(load.getSource()) && load.getScalars().empty()) {
        from = &member;
        largest = load;
        most = bytes;
      }
  if (!largest)
    return false;
  auto isReduced = [&](ArrayRef<SizeExpr> indices, Value value) {
    auto strides = cast<GraphTensorType>(value.getType()).getStrides();
    return followsReduced(group, inner.simplify(linearOffset(sizes, indices, strides)), sizes);
  };
  std::optional<bool> isReadAlong = isReduced(loadIndices(*from, largest, sizes, inner), largest.getSource());
  return isReadAlong && llvm::any_of(LoopsOp(last.op).getOutputs(), [&](Value result) {
           std::optional<bool> isWrittenAlong = isReduced(resultIndices(last, sizes), result);
           return isWrittenAlong && *isWrittenAlong != *isReadAlong;
         });
}

} // namespace

bool joiningPays(const Group &before, const Group &joined, const SizeFacts &facts, const Machine &machine,
                 std::string &reason) {
  if (countBuffers(joined) > maxBuffers) {
    reason = tooManyBuffers;
    return false;
  }
  if (!joined.hasReducedAxes())
    return true;
  double programs = 1, reduced = 1;
  for (const Axis &axis : joined.axes)
    (axis.reduced ? reduced : programs) *= (double)std::max<int64_t>(1, facts.estimate(axis.extent));
  if (programs * reduced < smallWork)
    return true;
  const Member &last = joined.members.back();
  bool lastIsPointwise = !LoopsOp(last.op).isReduction();
  if (!before.hasReducedAxes() || (lastIsPointwise && last.isFull)) {
    if (programs < (double)machine.fewJoinedPrograms) {
      reason = "pointwise work would run with the few programs of the reduction";
      return false;
    }
  }
  if (last.isFull && followsReduction(joined, last)) {
    int64_t rowBytes = 0;
    for (auto &[value, loads] : joined.loads)
      if (!joined.producers.contains(value)) {
        auto type = cast<GraphTensorType>(value.getType());
        double elements = std::min((double)facts.estimate(type.numElements()), reduced);
        rowBytes += (int64_t)elements * elementBytes(type.getElementType());
      }
    if (rowBytes > maxRowBytes) {
      reason = "a row does not stay in cache between the reduction and its use";
      return false;
    }
    if (lastIsPointwise && turnsTooMuch(joined, facts, machine, reduced)) {
      reason = "what is written lies across what is reduced";
      return false;
    }
  }
  return true;
}

} // namespace torch_tile::fusion
