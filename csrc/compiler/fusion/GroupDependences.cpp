#include "compiler/fusion/GroupDependences.h"

#include "compiler/analysis/Memory.h"
#include "compiler/fusion/Storage.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <queue>

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

/// Symbols that exist only once an op has run: the sizes of what it returns.
static llvm::StringMap<Operation *> symbolsMadeByOps(FuncOp func) {
  auto namesIn = [](Type type) {
    SmallVector<std::string_view> names;
    auto add = [&](SizeExpr e) { llvm::append_range(names, e.symbols()); };
    if (auto tensor = dyn_cast<GraphTensorType>(type)) {
      llvm::for_each(tensor.getSizes(), add);
      llvm::for_each(tensor.getStrides(), add);
    } else if (auto size = dyn_cast<SizeType>(type)) {
      add(size.getExpr());
    }
    return names;
  };
  llvm::StringSet<> given;
  for (Type type : func.getArgumentTypes())
    for (std::string_view name : namesIn(type))
      given.insert(name);
  llvm::StringMap<Operation *> made;
  for (Operation &op : func.getBody().front())
    if (isa<ExternOp, PyCallOp>(op))
      for (Type type : op.getResultTypes())
        for (std::string_view name : namesIn(type))
          if (!given.contains(name))
            made.try_emplace(name, &op);
  return made;
}

Dependences::Dependences(FuncOp func) {
  struct Place {
    SmallVector<unsigned> writers; // all so far, the last one orders those before it
    SmallVector<unsigned> readers; // since the last write
  };
  DenseMap<Value, Place> places;
  std::optional<unsigned> lastEffect;
  llvm::StringMap<Operation *> madeSymbols = symbolsMadeByOps(func);
  llvm::StringMap<SmallVector<unsigned, 1>> checksOfSymbols;
  std::optional<unsigned> lastConstantCheck; // it always fails

  for (Operation &op : func.getBody().front()) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      continue;
    unsigned number = parent.size();
    units[&op] = number;
    parent.push_back(number);
    ops.push_back({&op});
    last.push_back(number);
    position.push_back(number);
    sequence.push_back(number);
    SmallVector<unsigned, 4> &before = needs.emplace_back();
    auto need = [&](unsigned other) {
      if (other != number && !llvm::is_contained(before, other))
        before.push_back(other);
    };

    SmallVector<Value> read;
    auto collect = [&](Value value) {
      if (Operation *producer = value.getDefiningOp(); producer && units.contains(producer))
        need(units[producer]);
      if (isa<GraphTensorType>(value.getType()))
        llvm::append_range(read, analysis::placesOf(value));
    };
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == &func.getBody().front())
          collect(operand);
    });
    bool isCheck = isa<CheckOp>(op), hasSymbols = false;
    if (lastConstantCheck)
      need(*lastConstantCheck);
    if (isCheck || !madeSymbols.empty() || !checksOfSymbols.empty())
      collectSymbols(&op, [&](std::string_view name) {
        hasSymbols = true;
        if (Operation *maker = madeSymbols.lookup(name); maker && units.contains(maker))
          need(units[maker]);
        if (auto it = checksOfSymbols.find(name); it != checksOfSymbols.end())
          llvm::for_each(it->second, need);
        if (isCheck)
          checksOfSymbols[name].push_back(number);
      });
    if (isCheck && !hasSymbols)
      lastConstantCheck = number;
    // These read nothing; only what is made of them does.
    if (isa<AliasOp, AssembleOp>(op))
      read.clear();
    for (Value value : read) {
      Place &s = places[value];
      if (!s.writers.empty())
        need(s.writers.back());
      s.readers.push_back(number);
    }
    for (Value value : analysis::writtenPlaces(&op)) {
      Place &s = places[value];
      for (unsigned reader : s.readers)
        need(reader);
      if (!s.writers.empty())
        need(s.writers.back());
      s.writers.push_back(number);
      s.readers.clear();
    }
    if (analysis::hasEffect(&op)) {
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

/// What `op` needs, directly or not, and does not come before `unit` anyway. Empty if `unit` itself is reached through
/// another one.
std::optional<llvm::DenseSet<unsigned>> Dependences::needsBehind(unsigned unit, Operation *op) const {
  llvm::DenseSet<unsigned> seen;
  SmallVector<unsigned> work;
  auto visit = [&](unsigned other) {
    if (position[other] > position[unit] && seen.insert(other).second)
      work.push_back(other);
  };
  for (unsigned other : predecessors(unitOf(op)))
    visit(other);
  while (!work.empty())
    for (unsigned other : predecessors(work.pop_back_val())) {
      if (other == unit)
        return std::nullopt;
      visit(other);
    }
  return seen;
}

bool Dependences::mergeMakesCycle(unsigned unit, Operation *op) const { return !needsBehind(unit, op); }

void Dependences::merge(unsigned unit, Operation *op) {
  unsigned from = unitOf(op);
  // Keep `sequence` in order: what the op needs comes first, then the merged unit, then the rest of what stood between
  // the two.
  llvm::DenseSet<unsigned> before = *needsBehind(unit, op);
  SmallVector<unsigned> early, late;
  unsigned begin = position[unit], end = position[from];
  for (unsigned k = begin + 1; k < end; ++k)
    if (sequence[k] != none)
      (before.contains(sequence[k]) ? early : late).push_back(sequence[k]);
  unsigned next = begin;
  auto put = [&](unsigned other) {
    position[other] = next;
    sequence[next++] = other;
  };
  llvm::for_each(early, put);
  put(unit);
  llvm::for_each(late, put);
  std::fill(sequence.begin() + next, sequence.begin() + end + 1, none);

  parent[from] = unit;
  ops[unit].append(ops[from].begin(), ops[from].end());
  ops[from].clear();
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
  assert((size_t)llvm::count_if(sequence, [](unsigned unit) { return unit != none; }) == result.size() &&
         "units need one another");
  return result;
}

} // namespace torch_tile::fusion
