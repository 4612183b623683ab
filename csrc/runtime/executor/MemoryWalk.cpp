#include "runtime/executor/MemoryWalk.h"

#include <ATen/EmptyTensor.h>

namespace torch_tile::runtime {

using namespace artifact;

MemoryWalk::MemoryWalk(const Program &program) : program(program), places(program.source) {
  for (const Program::InputCheck &input : program.tensorInputs) {
    ownerOf(input.slot);
    held.add(input.slot, bytesOf(input.shape, input.type));
  }
}

int64_t MemoryWalk::take(Program::StepRef step) {
  switch (step.kind) {
  case Program::StepKind::Alloc: {
    const Program::AllocStep &alloc = program.allocs[step.index];
    ownerOf(alloc.slot);
    held.add(alloc.slot, bytesOf(alloc.shape, alloc.type));
    return 0;
  }
  case Program::StepKind::Alias:
    held.share(program.aliases[step.index].result, program.aliases[step.index].source);
    return 0;
  case Program::StepKind::Free:
    return held.free(step.index);
  case Program::StepKind::Extern:
    takeResults(*program.externs[step.index].results);
    return 0;
  case Program::StepKind::PyCall:
    takeResults(program.pyCalls[step.index].call->results);
    return 0;
  case Program::StepKind::Control:
    takeResults(program.controls[step.index].control->results);
    return 0;
  case Program::StepKind::Launch:
  case Program::StepKind::Group:
  case Program::StepKind::Check:
    return 0;
  }
  return 0;
}

void MemoryWalk::takeResults(const std::vector<Result> &results) {
  for (const Result &result : results) {
    if (!result.used)
      continue;
    SlotId owner = ownerOf(result.slot);
    if (owner != result.slot && held.has(owner))
      held.share(result.slot, owner);
    else
      held.add(result.slot, bytesOf(result));
  }
}

int64_t MemoryWalk::bytesOf(const Program::Shape &shape, at::ScalarType type) const {
  if (!shape.isConstant)
    return 0;
  return static_cast<int64_t>(at::detail::computeStorageNbytes(shape.sizes, shape.strides, c10::elementSize(type)));
}

int64_t MemoryWalk::bytesOf(const Result &result) const {
  return bytesOf(program.shapeOf(result.sizes, result.strides), toScalarType(result.type));
}

SlotId MemoryWalk::ownerOf(SlotId slot) {
  std::vector<Place> own;
  places.append(slot, own);
  SlotId owner = slot;
  for (Place place : own)
    if (auto [it, isNew] = owners.emplace(place, slot); !isNew && owner == slot)
      owner = it->second;
  return owner;
}

} // namespace torch_tile::runtime
