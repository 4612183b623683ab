// Size expressions as postfix programs of the artifact.
#pragma once

#include "artifact/Artifact.h"
#include "support/ExprBudget.h"

#include <unordered_map>

namespace torch_tile::driver {

/// Collects expressions into the exprs of a body, each once.
class ExprTable {
public:
  /// `symbols[k]` is the name of the artifact's symbol k.
  ExprTable(artifact::Body &artifact) : artifact(artifact) {}

  artifact::ExprId add(SizeExpr expr);
  std::vector<artifact::ExprId> addAll(const std::vector<SizeExpr> &exprs);
  template <typename Range> std::vector<artifact::ExprId> addRange(Range &&range) {
    std::vector<artifact::ExprId> ids;
    for (SizeExpr expr : range)
      ids.push_back(add(expr));
    return ids;
  }
  /// The first expression that is no program: programs are trees on a stack of fixed height, evaluated in each call.
  SizeExpr tooLarge;
  /// Symbols in use so far, by their numbers.
  const std::vector<std::string> &symbols() const { return artifact.symbols; }

private:
  static constexpr uint32_t mostNodes = 4096;

  void emit(SizeExpr expr, artifact::Expr &program);
  void emitAtom(SizeExpr atom, artifact::Expr &program);
  int64_t symbolNumber(std::string_view name);

  artifact::Body &artifact;
  std::unordered_map<SizeExpr, artifact::ExprId> known;
};

} // namespace torch_tile::driver
