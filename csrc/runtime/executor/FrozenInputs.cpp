#include "runtime/executor/FrozenInputs.h"

#include <algorithm>
#include <map>
#include <utility>

namespace torch_tile::runtime {

using namespace artifact;

FrozenInputs::FrozenInputs(const Program &program, std::vector<Argument> arguments, std::vector<at::Tensor> constants,
                           const std::vector<uint32_t> &packable)
    : frozen(std::move(arguments)), values(std::move(constants)) {
  const Artifact &source = program.artifact();
  TORCH_CHECK(values.size() <= source.inputs.size(), "expected at most ", source.inputs.size(), " constants, got ",
              values.size());
  std::sort(frozen.begin(), frozen.end(), [](const Argument &a, const Argument &b) { return a.position < b.position; });

  std::map<SlotId, const at::Tensor *> bySlot;
  size_t firstConstant = source.inputs.size() - values.size();
  for (uint32_t number : packable)
    bySlot[source.inputs.at(firstConstant + number).slot] = &values[number];
  // Calls of one operator with one matrix share its copy.
  std::map<std::pair<const void *, uint32_t>, std::shared_ptr<const PackedWeight>> matrices;
  for (const Step &step : source.steps) {
    auto *call = std::get_if<Extern>(&step.action);
    if (!call)
      continue;
    std::shared_ptr<const PackedWeight> &weight = weights.emplace_back();
    std::optional<WeightUse> use = findWeight({call->op, call->overload});
    if (!use || call->args.size() != use->numArguments || call->args[use->position].kind != Value::Kind::Tensor)
      continue;
    auto constant = bySlot.find(call->args[use->position].ref);
    if (constant == bySlot.end())
      continue;
    const at::Tensor &plain = *constant->second;
    if (use->kind != WeightUse::Kind::Matrix) {
      weight = std::make_shared<const PackedWeight>(plain, *use, program.matmulLibrary());
      continue;
    }
    auto &shared = matrices[{plain.unsafeGetTensorImpl(), use->numArguments}];
    if (!shared)
      shared = std::make_shared<const PackedWeight>(plain, *use, program.matmulLibrary());
    weight = shared;
  }
}

size_t FrozenInputs::numPacked() const {
  return static_cast<size_t>(
      std::count_if(weights.begin(), weights.end(), [](const auto &weight) { return weight && weight->isPacked(); }));
}

} // namespace torch_tile::runtime
