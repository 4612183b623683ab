#include "runtime/sizes/SizeProgram.h"

#include "artifact/Validate.h"
#include "support/FloatSizes.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace torch_tile::runtime {

using artifact::ExprId;
using artifact::ExprInst;
using artifact::ExprOp;

namespace {

[[noreturn]] void fail(const std::string &text) { throw std::runtime_error(text); }

void requireDivisor(bool isNonzero) {
  if (!isNonzero)
    fail("a size expression divides by zero");
}

int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }

/// Rounds towards zero; the one quotient that overflows wraps around.
int64_t truncDiv(int64_t a, int64_t b) {
  requireDivisor(b != 0);
  return b == -1 ? wrap(0 - static_cast<uint64_t>(a)) : a / b;
}

int64_t floorDiv(int64_t a, int64_t b) {
  int64_t quotient = truncDiv(a, b);
  bool isInexact = b != -1 && a % b != 0;
  return quotient - (isInexact && (a < 0) != (b < 0));
}

int64_t ceilDiv(int64_t a, int64_t b) {
  int64_t quotient = truncDiv(a, b);
  bool isInexact = b != -1 && a % b != 0;
  return quotient + (isInexact && (a < 0) == (b < 0));
}

int64_t applyFloat(ExprOp op, int64_t a, int64_t b) {
  double x = floatOfBits(a), y = floatOfBits(b);
  switch (op) {
  case ExprOp::IntTrueDiv:
    requireDivisor(b != 0);
    return bitsOfFloat(static_cast<double>(a) / static_cast<double>(b));
  case ExprOp::FloatAdd:
    return bitsOfFloat(x + y);
  case ExprOp::FloatMul:
    return bitsOfFloat(x * y);
  case ExprOp::FloatTrueDiv:
    requireDivisor(y != 0);
    return bitsOfFloat(x / y);
  case ExprOp::FloatPow:
    return bitsOfFloat(std::pow(x, y));
  case ExprOp::FloatMin:
    return bitsOfFloat(std::min(x, y));
  case ExprOp::FloatMax:
    return bitsOfFloat(std::max(x, y));
  case ExprOp::FloatUnary:
  case ExprOp::FloatRoundDecimal: {
    auto result = applyFloatFn(op == ExprOp::FloatUnary ? FloatFn::Unary : FloatFn::RoundDecimal, a, b);
    if (!result)
      fail("a size expression is a function of a float beyond its domain: " + std::to_string(x));
    return *result;
  }
  default: {
    auto rounded = roundToInt(x, b);
    if (!rounded)
      fail("a size expression is beyond 64 bits: " + std::to_string(x));
    return *rounded;
  }
  }
}

int64_t apply(ExprOp op, int64_t a, int64_t b) {
  if (op >= ExprOp::IntTrueDiv)
    return applyFloat(op, a, b);
  switch (op) {
  case ExprOp::Add:
    return wrap(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  case ExprOp::Mul:
    return wrap(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  case ExprOp::FloorDiv:
    return floorDiv(a, b);
  case ExprOp::Mod:
  case ExprOp::PythonMod:
    return wrap(static_cast<uint64_t>(a) - static_cast<uint64_t>(b) * static_cast<uint64_t>(floorDiv(a, b)));
  case ExprOp::CleanDiv:
  case ExprOp::TruncDiv:
    return truncDiv(a, b);
  case ExprOp::CeilDiv:
    return ceilDiv(a, b);
  case ExprOp::Min:
    return std::min(a, b);
  case ExprOp::Max:
    return std::max(a, b);
  default:
    break;
  }
  fail("not a binary size operation");
}

} // namespace

SizeProgram::SizeProgram(const artifact::Body &body) {
  begins.push_back(0);
  for (const artifact::Expr &expr : body.exprs) {
    instructions.insert(instructions.end(), expr.begin(), expr.end());
    begins.push_back(static_cast<uint32_t>(instructions.size()));
    bool needsSymbol = std::any_of(expr.begin(), expr.end(), [](ExprInst i) { return i.op == ExprOp::Symbol; });
    isConstantExpr.push_back(!needsSymbol);
  }
  constantValues.resize(body.exprs.size());
  for (ExprId id = 0; id < body.exprs.size(); ++id) {
    if (isConstantExpr[id])
      constantValues[id] = evaluateOne(id, nullptr);
    else
      dynamicExprs.push_back(id);
  }
}

std::vector<uint32_t> SizeProgram::symbolsOf(ExprId id) const {
  std::vector<uint32_t> symbols;
  for (uint32_t i = begins[id]; i < begins[id + 1]; ++i)
    if (instructions[i].op == ExprOp::Symbol)
      symbols.push_back(static_cast<uint32_t>(instructions[i].value));
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  return symbols;
}

int64_t SizeProgram::evaluateOne(ExprId id, const int64_t *symbols) const {
  int64_t stack[artifact::maxExprDepth];
  int64_t *top = stack;
  const ExprInst *end = instructions.data() + begins[id + 1];
  for (const ExprInst *inst = instructions.data() + begins[id]; inst != end; ++inst) {
    if (inst->op == ExprOp::Constant) {
      *top++ = inst->value;
    } else if (inst->op == ExprOp::Symbol) {
      *top++ = symbols[inst->value];
    } else {
      --top;
      top[-1] = apply(inst->op, top[-1], top[0]);
    }
  }
  return stack[0];
}

void SizeProgram::evaluate(std::span<const ExprId> ids, const int64_t *symbols, int64_t *values) const {
  for (ExprId id : ids)
    values[id] = evaluateOne(id, symbols);
}

} // namespace torch_tile::runtime
