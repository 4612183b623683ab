#include "artifact/Validate.h"

namespace torch_tile::artifact {
namespace {

class Validator {
public:
  /// `numBodies`: how many of the artifact's bodies this one may run.
  Validator(const Artifact &whole, const Body &body, size_t numBodies)
      : whole(whole), body(body), numBodies(numBodies) {}

  std::string run() {
    checkExprs();
    checkSymbols();
    checkInputs();
    for (size_t i = 0; i < body.steps.size() && error.empty(); ++i) {
      where = "step " + std::to_string(i);
      std::visit([&](const auto &action) { check(action); }, body.steps[i].action);
    }
    checkOutputs();
    return std::move(error);
  }

private:
  void fail(const std::string &text) {
    if (error.empty())
      error = where + ": " + text;
  }

  //===-- expressions and symbols -------------------------------------------------------------------------------===//

  void checkExprs() {
    where = "exprs";
    for (const Expr &expr : body.exprs) {
      uint32_t depth = 0;
      for (const ExprInst &inst : expr) {
        bool pushes = inst.op == ExprOp::Constant || inst.op == ExprOp::Symbol;
        if (inst.op == ExprOp::Symbol && (inst.value < 0 || uint64_t(inst.value) >= body.symbols.size()))
          return fail("symbol " + std::to_string(inst.value) + " does not exist");
        if (!pushes && depth < 2)
          return fail("operation without two operands");
        depth = pushes ? depth + 1 : depth - 1;
        if (depth > maxExprDepth)
          return fail("expression nested too deeply");
      }
      if (depth != 1)
        return fail("expected an expression to leave one value, got " + std::to_string(depth));
    }
  }

  void checkSymbols() {
    where = "symbols";
    if (body.symbols.size() != body.symbolSources.size())
      return fail("expected one source per symbol");
    isSymbolSet.assign(body.symbols.size(), false);
    for (size_t i = 0; i < body.symbolSources.size(); ++i) {
      const SymbolSource &source = body.symbolSources[i];
      if (source.kind == SymbolSource::Kind::ExternResult) {
        if (source.index >= body.numSlots)
          return fail("source slot " + std::to_string(source.index) + " does not exist");
        continue;
      }
      if (source.index >= body.inputs.size())
        return fail("source input " + std::to_string(source.index) + " does not exist");
      const Input &input = body.inputs[source.index];
      bool wantsScalar = source.kind == SymbolSource::Kind::Scalar;
      if (wantsScalar != (input.kind == Input::Kind::Int))
        return fail("source input " + std::to_string(source.index) + " is of the wrong kind");
      if (!wantsScalar && source.dim >= input.sizes.size())
        return fail("source dimension " + std::to_string(source.dim) + " does not exist");
      isSymbolSet[i] = true;
    }
  }

  //===-- references --------------------------------------------------------------------------------------------===//

  void useExpr(ExprId id) {
    if (!error.empty())
      return;
    if (id >= body.exprs.size())
      return fail("expr " + std::to_string(id) + " does not exist");
    for (const ExprInst &inst : body.exprs[id])
      if (inst.op == ExprOp::Symbol && !isSymbolSet[inst.value])
        return fail("symbol " + body.symbols[inst.value] + " is used before it is known");
  }

  void useExprs(const std::vector<ExprId> &ids) {
    for (ExprId id : ids)
      useExpr(id);
  }

  void useShape(const std::vector<ExprId> &sizes, const std::vector<ExprId> &strides) {
    if (sizes.size() != strides.size())
      return fail("expected as many strides as sizes, got " + std::to_string(strides.size()) + " and " +
                  std::to_string(sizes.size()));
    useExprs(sizes);
    useExprs(strides);
  }

  void useSlot(SlotId slot) {
    if (slot >= body.numSlots || !isSlotSet[slot])
      fail("slot " + std::to_string(slot) + " holds nothing");
  }

  void setSlot(SlotId slot) {
    if (slot >= body.numSlots)
      return fail("slot " + std::to_string(slot) + " does not exist");
    isSlotSet[slot] = true;
  }

  //===-- inputs, steps, outputs --------------------------------------------------------------------------------===//

  void checkInputs() {
    if (!error.empty())
      return;
    where = "inputs";
    // A slot that nothing defines serves nothing, so their number is bounded by what is in the body.
    size_t maxSlots = body.inputs.size();
    for (const Step &step : body.steps) {
      maxSlots += 1;
      if (auto *call = std::get_if<Extern>(&step.action))
        maxSlots += call->results.size();
      if (auto *call = std::get_if<PyCall>(&step.action))
        maxSlots += call->results.size();
      if (auto *control = std::get_if<Control>(&step.action))
        maxSlots += control->results.size();
    }
    if (body.numSlots > maxSlots)
      return fail("expected at most " + std::to_string(maxSlots) + " slots, got " + std::to_string(body.numSlots));
    isSlotSet.assign(body.numSlots, false);
    for (const SharedSlot &shared : body.sharedSlots)
      if (shared.slot >= body.numSlots)
        return fail("shared slot " + std::to_string(shared.slot) + " does not exist");
    for (const Input &input : body.inputs) {
      if (input.kind != Input::Kind::Tensor)
        continue;
      useShape(input.sizes, input.strides);
      setSlot(input.slot);
    }
  }

  void check(const Alloc &step) {
    useShape(step.sizes, step.strides);
    setSlot(step.slot);
  }

  void check(const Free &step) {
    useSlot(step.slot);
    if (error.empty())
      isSlotSet[step.slot] = false;
  }

  void check(const Alias &step) {
    useSlot(step.source);
    useShape(step.sizes, step.strides);
    useExpr(step.offset);
    setSlot(step.result);
  }

  void check(const Launch &step) {
    if (step.kernel >= whole.kernels.size())
      fail("kernel " + std::to_string(step.kernel) + " does not exist");
    for (SlotId slot : step.pointers)
      useSlot(slot);
    for (uint32_t number : step.written)
      if (number >= step.pointers.size())
        fail("a launch of " + std::to_string(step.pointers.size()) + " pointers writes number " +
             std::to_string(number));
    useExprs(step.integers);
    useExprs(step.grid);
    if (!step.grid.empty() && step.grid.size() != 3)
      fail("a launch has a grid of " + std::to_string(step.grid.size()) + " sizes");
    for (ExprId id : {step.numPrograms, step.programCostNs, step.scratchBytes, step.bytesMoved})
      useExpr(id);
  }

  void check(const Value &value) {
    if (value.kind == Value::Kind::Tensor)
      useSlot(value.ref);
    if (value.kind == Value::Kind::Int)
      useExpr(value.ref);
    for (const Value &item : value.items)
      check(item);
  }

  void checkCall(const std::vector<Value> &args, const std::vector<Result> &results) {
    for (const Value &arg : args)
      check(arg);
    for (const Result &result : results) {
      if (!result.used)
        continue;
      setSlot(result.slot);
      for (size_t i = 0; i < body.symbolSources.size(); ++i)
        if (body.symbolSources[i].kind == SymbolSource::Kind::ExternResult &&
            body.symbolSources[i].index == result.slot)
          isSymbolSet[i] = true;
    }
    // The sizes of a result may name symbols that this very call defines.
    for (const Result &result : results)
      if (result.used)
        useShape(result.sizes, result.strides);
  }

  void check(const Extern &step) { checkCall(step.args, step.results); }
  void check(const PyCall &step) { checkCall(step.args, step.results); }
  void check(const Check &step) { useExpr(step.condition); }

  //===-- control flow ------------------------------------------------------------------------------------------===//

  void check(const Control &step) {
    bool isCond = step.kind == Control::Kind::Cond;
    bool isWhile = step.kind == Control::Kind::While || step.kind == Control::Kind::WhileStack;
    bool isSliced = step.kind == Control::Kind::Map || step.kind == Control::Kind::Scan;
    bool isCarried = isWhile || step.kind == Control::Kind::Scan;
    if (step.bodies.size() != (isCond || isWhile ? 2 : 1))
      return fail("control flow with " + std::to_string(step.bodies.size()) + " bodies");
    size_t numGiven = size_t(step.numCarried) + step.numSliced;
    if (numGiven > step.args.size() || (isCond && step.args.empty()) || (step.numCarried && !isCarried) ||
        isSliced != (step.numSliced > 0))
      return fail("control flow over " + std::to_string(step.args.size()) + " values carries " +
                  std::to_string(step.numCarried) + " and slices " + std::to_string(step.numSliced));
    for (uint32_t number : step.bodies) {
      if (number >= numBodies)
        return fail("body " + std::to_string(number) + " does not exist or comes later");
      checkInputs(step, whole.bodies[number]);
    }
    size_t numResults = step.results.size();
    if (isCarried ? isWhile ? numResults != step.numCarried : numResults < step.numCarried : false)
      return fail("control flow that carries " + std::to_string(step.numCarried) + " values has " +
                  std::to_string(numResults) + " results");
    for (size_t i = 0; i < step.bodies.size(); ++i) {
      size_t numOutputs = whole.bodies[step.bodies[i]].outputs.size();
      size_t expected = isWhile && i == 0 ? 1 : numResults;
      if (numOutputs != expected)
        return fail("expected a body to give " + std::to_string(expected) + " values, got " +
                    std::to_string(numOutputs));
    }
    checkCall(step.args, step.results);
  }

  void checkInputs(const Control &step, const Body &callee) {
    size_t first = step.kind == Control::Kind::Cond ? 1 : 0;
    if (callee.inputs.size() + first != step.args.size())
      return fail("expected a body to take " + std::to_string(step.args.size() - first) + " values, got " +
                  std::to_string(callee.inputs.size()));
    for (size_t i = 0; i < callee.inputs.size(); ++i) {
      bool isTensor = step.args[first + i].kind == Value::Kind::Tensor;
      bool isNumber = step.args[first + i].kind == Value::Kind::Int || step.args[first + i].kind == Value::Kind::Bool;
      bool isSliced = i >= step.numCarried && i < size_t(step.numCarried) + step.numSliced;
      if (callee.inputs[i].kind == Input::Kind::Tensor ? !isTensor : !isNumber || isSliced)
        return fail("value " + std::to_string(first + i) + " is of another kind than the body takes");
    }
  }

  void checkOutputs() {
    if (!error.empty())
      return;
    where = "outputs";
    for (const Output &output : body.outputs) {
      if (output.kind == Output::Kind::Tensor)
        useSlot(output.ref);
      if (output.kind == Output::Kind::Int)
        useExpr(output.ref);
    }
  }

  const Artifact &whole;
  const Body &body;
  size_t numBodies;
  std::string where, error;
  std::vector<bool> isSymbolSet, isSlotSet;
};

} // namespace

Status validate(const Artifact &artifact) {
  std::string error;
  for (size_t i = 0; i < artifact.bodies.size() && error.empty(); ++i)
    if (error = Validator(artifact, artifact.bodies[i], i).run(); !error.empty())
      error = "body " + std::to_string(i) + ", " + error;
  if (error.empty())
    error = Validator(artifact, artifact, artifact.bodies.size()).run();
  return error.empty() ? Status::ok() : Status::invalidInput("artifact", std::move(error));
}

} // namespace torch_tile::artifact
