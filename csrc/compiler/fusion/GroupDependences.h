// Which units of a function (fusion groups and other ops) must run before which.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace torch_tile::fusion {

/// Units are numbered; every top-level op but the terminator belongs to one, and units may be merged.
class Dependences {
public:
  explicit Dependences(mlir::graph::FuncOp func);

  unsigned unitOf(mlir::Operation *op) const { return leader(units.lookup(op)); }
  /// The unit that `unit` is now a part of.
  unsigned leader(unsigned unit) const {
    while (parent[unit] != unit)
      unit = parent[unit];
    return unit;
  }
  /// Whether `unit` stands before another one in the order that is kept.
  bool isBefore(unsigned unit, unsigned other) const { return position[unit] < position[other]; }
  /// Units that directly precede `unit`.
  llvm::SmallVector<unsigned> predecessors(unsigned unit) const;
  /// Whether merging `op` into `unit` would make a cycle: something outside that `op` needs depends on `unit`.
  bool mergeMakesCycle(unsigned unit, mlir::Operation *op) const;
  /// Makes the unit of `op`, which `unit` is before, a part of it. Makes no cycle.
  void merge(unsigned unit, mlir::Operation *op);
  /// Ops of a unit in the order in which they were merged.
  llvm::ArrayRef<mlir::Operation *> members(unsigned unit) const { return ops[unit]; }
  /// Unit leaders in an order that respects all dependences and otherwise follows the program.
  llvm::SmallVector<unsigned> order() const;

private:
  std::optional<llvm::DenseSet<unsigned>> needsBehind(unsigned unit, mlir::Operation *op) const;

  llvm::DenseMap<mlir::Operation *, unsigned> units;
  std::vector<unsigned> parent;
  std::vector<llvm::SmallVector<mlir::Operation *, 1>> ops;
  std::vector<unsigned> last;                        // program position of a unit's last op
  std::vector<llvm::SmallVector<unsigned, 4>> needs; // by op number: op numbers that come before

  // An order of units that respects all dependences, kept up to date as units merge, so that searches can stop at what
  // comes before their goal.
  static constexpr unsigned none = ~0u;
  std::vector<unsigned> sequence; // units by position; none where one was merged away
  std::vector<unsigned> position; // by unit
};

} // namespace torch_tile::fusion
