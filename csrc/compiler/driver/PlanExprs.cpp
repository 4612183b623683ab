#include "compiler/driver/PlanExprs.h"

#include "artifact/Validate.h"
#include "support/FloatSizes.h"

#include <algorithm>

namespace torch_tile::driver {

using artifact::ExprOp;

artifact::ExprId ExprTable::add(SizeExpr expr) {
  auto [it, isNew] = known.try_emplace(expr, (artifact::ExprId)artifact.exprs.size());
  if (isNew) {
    artifact.exprs.emplace_back();
    artifact::Expr program;
    if (treeSize(expr) <= mostNodes)
      emit(expr, program);
    uint32_t depth = 0;
    uint32_t deepest = 0;
    for (const artifact::ExprInst &inst : program) {
      depth += inst.op == ExprOp::Constant || inst.op == ExprOp::Symbol ? 1 : -1;
      deepest = std::max(deepest, depth);
    }
    if ((program.empty() || deepest > artifact::maxExprDepth) && !tooLarge)
      tooLarge = expr;
    artifact.exprs[it->second] = std::move(program);
  }
  return it->second;
}

int64_t ExprTable::symbolNumber(std::string_view name) {
  auto it = std::find(artifact.symbols.begin(), artifact.symbols.end(), name);
  if (it == artifact.symbols.end())
    it = artifact.symbols.insert(artifact.symbols.end(), std::string(name));
  return it - artifact.symbols.begin();
}

void ExprTable::emit(SizeExpr expr, artifact::Expr &program) {
  std::vector<SizeTerm> terms = SizeContext::terms(expr);
  if (terms.empty()) {
    program.push_back({ExprOp::Constant, expr.constant().value_or(0)});
    return;
  }
  bool isFirst = true;
  for (const SizeTerm &term : terms) {
    // Factors come first: what is pushed before them would stay on the stack below them, at every level of nesting.
    bool isPushed = false;
    auto multiply = [&] {
      if (isPushed)
        program.push_back({ExprOp::Mul});
      isPushed = true;
    };
    for (const auto &[atom, power] : term.factors)
      for (int k = 0; k < power; ++k) {
        emitAtom(atom, program);
        multiply();
      }
    if (term.coefficient != 1 || term.factors.empty()) {
      program.push_back({ExprOp::Constant, term.coefficient});
      multiply();
    }
    if (!isFirst)
      program.push_back({ExprOp::Add});
    isFirst = false;
  }
}

static ExprOp opOfFloatFn(FloatFn fn) {
  switch (fn) {
  case FloatFn::IntTrueDiv:
    return ExprOp::IntTrueDiv;
  case FloatFn::Add:
    return ExprOp::FloatAdd;
  case FloatFn::Mul:
    return ExprOp::FloatMul;
  case FloatFn::TrueDiv:
    return ExprOp::FloatTrueDiv;
  case FloatFn::Pow:
    return ExprOp::FloatPow;
  case FloatFn::Min:
    return ExprOp::FloatMin;
  case FloatFn::Max:
    return ExprOp::FloatMax;
  case FloatFn::ToInt:
    return ExprOp::FloatToInt;
  case FloatFn::Unary:
    return ExprOp::FloatUnary;
  case FloatFn::RoundDecimal:
    return ExprOp::FloatRoundDecimal;
  }
  return ExprOp::Add;
}

void ExprTable::emitAtom(SizeExpr atom, artifact::Expr &program) {
  if (auto name = atom.symbol()) {
    program.push_back({ExprOp::Symbol, symbolNumber(*name)});
    return;
  }
  SizeCall call = *SizeContext::asCall(atom);
  auto opOf = [](SizeFn fn) {
    if (isFloatFn(fn))
      return opOfFloatFn(floatFn(fn));
    switch (fn) {
    case SizeFn::FloorDiv:
      return ExprOp::FloorDiv;
    case SizeFn::Mod:
      return ExprOp::Mod;
    case SizeFn::PythonMod:
      return ExprOp::PythonMod;
    case SizeFn::CleanDiv:
      return ExprOp::CleanDiv;
    case SizeFn::TruncDiv:
      return ExprOp::TruncDiv;
    case SizeFn::CeilDiv:
      return ExprOp::CeilDiv;
    case SizeFn::Min:
      return ExprOp::Min;
    case SizeFn::Max:
      return ExprOp::Max;
    }
    return ExprOp::Add;
  };
  // Min and Max take any number of arguments: a left fold.
  emit(call.args[0], program);
  for (size_t k = 1; k < call.args.size(); ++k) {
    emit(call.args[k], program);
    program.push_back({opOf(call.fn)});
  }
}

} // namespace torch_tile::driver
