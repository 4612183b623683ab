#include "compiler/fusion/GroupDependences.h"

#include "llvm/ADT/DenseSet.h"

#include <queue>

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

/// The value whose storage `value` lies in.
static Value storageOf(Value value) {
  while (auto alias = value.getDefiningOp<AliasOp>())
    value = alias.getSource();
  if (auto loops = value.getDefiningOp<LoopsOp>())
    if (Value dest = loops.destOf(cast<OpResult>(value).getResultNumber()))
      return storageOf(dest);
  return value;
}

Dependences::Dependences(FuncOp func) {
  struct Storage {
    SmallVector<unsigned> writers;  // all so far, the last one orders those before it
    SmallVector<unsigned> readers;  // since the last write
  };
  DenseMap<Value, Storage> storages;
  std::optional<unsigned> lastEffect;

  for (Operation &op : func.getBody().front()) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      continue;
    unsigned number = parent.size();
    units[&op] = number;
    parent.push_back(number);
    ops.push_back({&op});
    first.push_back(number);
    last.push_back(number);
    SmallVector<unsigned, 4> &before = needs.emplace_back();
    auto need = [&](unsigned other) {
      if (other != number && !llvm::is_contained(before, other))
        before.push_back(other);
    };

    SmallVector<Value> read, written;
    auto collect = [&](Value value) {
      if (Operation *producer = value.getDefiningOp(); producer && units.contains(producer))
        need(units[producer]);
      if (isa<GraphTensorType>(value.getType()))
        read.push_back(storageOf(value));
    };
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == &func.getBody().front())
          collect(operand);
    });
    if (auto loops = dyn_cast<LoopsOp>(op))
      for (Value dest : loops.getDests())
        written.push_back(storageOf(dest));
    bool hasEffect = isa<PyCallOp>(op);
    if (auto call = dyn_cast<ExternOp>(op); call && call.getMutates()) {
      hasEffect = true;
      for (int64_t k : *call.getMutates())
        written.push_back(storageOf(call.getInputs()[k]));
    }
    // An alias reads nothing; only what is made of it does.
    if (isa<AliasOp>(op))
      read.clear();
    for (Value storage : read) {
      Storage &s = storages[storage];
      if (!s.writers.empty())
        need(s.writers.back());
      s.readers.push_back(number);
    }
    for (Value storage : written) {
      Storage &s = storages[storage];
      for (unsigned reader : s.readers)
        need(reader);
      if (!s.writers.empty())
        need(s.writers.back());
      s.writers.push_back(number);
      s.readers.clear();
    }
    if (hasEffect) {
      if (lastEffect)
        need(*lastEffect);
      lastEffect = number;
    }
  }
}

SmallVector<unsigned> Dependences::predecessors(unsigned unit) const {
  SmallVector<unsigned> result;
  for (Operation *op : ops[unit])
    for (unsigned other : needs[units.lookup(op)])
      if (unsigned l = leader(other); l != unit)
        result.push_back(l);
  return result;
}

bool Dependences::mergeMakesCycle(unsigned unit, Operation *op) const {
  llvm::DenseSet<unsigned> seen;
  SmallVector<unsigned> work;
  auto visit = [&](unsigned other) {
    // Nothing that ends before the unit begins can depend on it.
    if (last[other] > first[unit] && seen.insert(other).second)
      work.push_back(other);
  };
  for (unsigned other : predecessors(unitOf(op)))
    if (other != unit)
      visit(other);
  while (!work.empty())
    for (unsigned other : predecessors(work.pop_back_val())) {
      if (other == unit)
        return true;
      visit(other);
    }
  return false;
}

void Dependences::merge(unsigned unit, Operation *op) {
  unsigned from = unitOf(op);
  parent[from] = unit;
  ops[unit].append(ops[from].begin(), ops[from].end());
  ops[from].clear();
  llvm::sort(ops[unit], [&](Operation *a, Operation *b) { return units.lookup(a) < units.lookup(b); });
  first[unit] = std::min(first[unit], first[from]);
  last[unit] = std::max(last[unit], last[from]);
}

SmallVector<unsigned> Dependences::order() const {
  std::vector<unsigned> waiting(parent.size(), 0);
  std::vector<SmallVector<unsigned, 4>> followers(parent.size());
  // By the program position of the last op: a group comes where its last member stood.
  auto later = [&](unsigned a, unsigned b) { return last[a] > last[b]; };
  std::priority_queue<unsigned, std::vector<unsigned>, decltype(later)> ready(later);
  for (unsigned unit = 0; unit < parent.size(); ++unit) {
    if (leader(unit) != unit)
      continue;
    llvm::DenseSet<unsigned> distinct;
    for (unsigned other : predecessors(unit))
      if (distinct.insert(other).second)
        followers[other].push_back(unit);
    waiting[unit] = distinct.size();
    if (!waiting[unit])
      ready.push(unit);
  }
  SmallVector<unsigned> result;
  while (!ready.empty()) {
    unsigned unit = ready.top();
    ready.pop();
    result.push_back(unit);
    for (unsigned follower : followers[unit])
      if (!--waiting[follower])
        ready.push(follower);
  }
  return result;
}

} // namespace torch_tile::fusion
