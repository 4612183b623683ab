#include "artifact/Validate.h"

namespace torch_tile::artifact {
namespace {

class Validator {
public:
  explicit Validator(const Artifact &artifact) : artifact(artifact) {}

  std::string run() {
    checkExprs();
    checkSymbols();
    checkInputs();
    for (size_t i = 0; i < artifact.steps.size() && error.empty(); ++i) {
      where = "step " + std::to_string(i);
      std::visit([&](const auto &action) { check(action); }, artifact.steps[i].action);
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
    for (const Expr &expr : artifact.exprs) {
      uint32_t depth = 0;
      for (const ExprInst &inst : expr) {
        bool pushes = inst.op == ExprOp::Constant || inst.op == ExprOp::Symbol;
        if (inst.op == ExprOp::Symbol && (inst.value < 0 || uint64_t(inst.value) >= artifact.symbols.size()))
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
    if (artifact.symbols.size() != artifact.symbolSources.size())
      return fail("expected one source per symbol");
    isSymbolSet.assign(artifact.symbols.size(), false);
    for (size_t i = 0; i < artifact.symbolSources.size(); ++i) {
      const SymbolSource &source = artifact.symbolSources[i];
      if (source.kind == SymbolSource::Kind::ExternResult) {
        if (source.index >= artifact.numSlots)
          return fail("source slot " + std::to_string(source.index) + " does not exist");
        continue;
      }
      if (source.index >= artifact.inputs.size())
        return fail("source input " + std::to_string(source.index) + " does not exist");
      const Input &input = artifact.inputs[source.index];
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
    if (id >= artifact.exprs.size())
      return fail("expr " + std::to_string(id) + " does not exist");
    for (const ExprInst &inst : artifact.exprs[id])
      if (inst.op == ExprOp::Symbol && !isSymbolSet[inst.value])
        return fail("symbol " + artifact.symbols[inst.value] + " is used before it is known");
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
    if (slot >= artifact.numSlots || !isSlotSet[slot])
      fail("slot " + std::to_string(slot) + " holds nothing");
  }

  void setSlot(SlotId slot) {
    if (slot >= artifact.numSlots)
      return fail("slot " + std::to_string(slot) + " does not exist");
    isSlotSet[slot] = true;
  }

  //===-- inputs, steps, outputs --------------------------------------------------------------------------------===//

  void checkInputs() {
    if (!error.empty())
      return;
    where = "inputs";
    // A slot that nothing defines serves nothing, so their number is bounded by what is in the artifact.
    size_t maxSlots = artifact.inputs.size();
    for (const Step &step : artifact.steps) {
      maxSlots += 1;
      if (auto *call = std::get_if<Extern>(&step.action))
        maxSlots += call->results.size();
      if (auto *call = std::get_if<PyCall>(&step.action))
        maxSlots += call->results.size();
    }
    if (artifact.numSlots > maxSlots)
      return fail("expected at most " + std::to_string(maxSlots) + " slots, got " + std::to_string(artifact.numSlots));
    isSlotSet.assign(artifact.numSlots, false);
    for (const SharedSlot &shared : artifact.sharedSlots)
      if (shared.slot >= artifact.numSlots)
        return fail("shared slot " + std::to_string(shared.slot) + " does not exist");
    for (const Input &input : artifact.inputs) {
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
    if (step.kernel >= artifact.kernels.size())
      fail("kernel " + std::to_string(step.kernel) + " does not exist");
    for (SlotId slot : step.pointers)
      useSlot(slot);
    for (uint32_t number : step.written)
      if (number >= step.pointers.size())
        fail("a launch of " + std::to_string(step.pointers.size()) + " pointers writes number " +
             std::to_string(number));
    useExprs(step.integers);
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
      for (size_t i = 0; i < artifact.symbolSources.size(); ++i)
        if (artifact.symbolSources[i].kind == SymbolSource::Kind::ExternResult &&
            artifact.symbolSources[i].index == result.slot)
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

  void checkOutputs() {
    if (!error.empty())
      return;
    where = "outputs";
    for (const Output &output : artifact.outputs) {
      if (output.kind == Output::Kind::Tensor)
        useSlot(output.ref);
      if (output.kind == Output::Kind::Int)
        useExpr(output.ref);
    }
  }

  const Artifact &artifact;
  std::string where, error;
  std::vector<bool> isSymbolSet, isSlotSet;
};

} // namespace

Status validate(const Artifact &artifact) {
  std::string error = Validator(artifact).run();
  return error.empty() ? Status::ok() : Status::invalidInput("artifact", std::move(error));
}

} // namespace torch_tile::artifact
