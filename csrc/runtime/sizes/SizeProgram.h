// All size expressions of a body of an artifact, ready to evaluate: constants folded when loaded, the rest run once per
// call.
#pragma once

#include "artifact/Artifact.h"

#include <span>

namespace torch_tile::runtime {

class SizeProgram {
public:
  SizeProgram() = default;
  explicit SizeProgram(const artifact::Body &body);

  bool isConstant(artifact::ExprId id) const { return isConstantExpr[id]; }
  bool hasOnlyConstants() const { return dynamicExprs.empty(); }
  /// One value per expr; right for the constant ones.
  const std::vector<int64_t> &constants() const { return constantValues; }
  /// The exprs that need a symbol, in order.
  const std::vector<artifact::ExprId> &dynamic() const { return dynamicExprs; }
  /// The symbols an expr names, each once.
  std::vector<uint32_t> symbolsOf(artifact::ExprId id) const;

  /// values[id] for every id given. Arithmetic wraps around; a zero divisor throws std::runtime_error.
  void evaluate(std::span<const artifact::ExprId> ids, const int64_t *symbols, int64_t *values) const;

private:
  int64_t evaluateOne(artifact::ExprId id, const int64_t *symbols) const;

  std::vector<artifact::ExprInst> instructions;
  std::vector<uint32_t> begins; // one more than there are exprs
  std::vector<bool> isConstantExpr;
  std::vector<int64_t> constantValues;
  std::vector<artifact::ExprId> dynamicExprs;
};

} // namespace torch_tile::runtime
