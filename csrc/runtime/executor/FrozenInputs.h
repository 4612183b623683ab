// Inputs of a program that are the same tensors, with the same values, in every call.
#pragma once

#include "runtime/executor/PackedWeight.h"
#include "runtime/executor/Program.h"
#include "runtime/executor/TensorState.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace torch_tile::runtime {

/// A program compiled for values that some arguments had. Such arguments are not passed on: the program has the values
/// themselves, or what was computed of them, as its last inputs.
class FrozenInputs {
public:
  struct Argument {
    uint32_t position; // among the arguments of a call
    TensorState state;
  };

  /// `constants` are the last inputs of the program; those numbered in `packable` are never written.
  FrozenInputs(const Program &program, std::vector<Argument> arguments, std::vector<at::Tensor> constants,
               const std::vector<uint32_t> &packable);

  /// Whether a tensor passed for that argument is the one that was frozen, unwritten since.
  bool isSame(size_t index, const at::Tensor &tensor) const { return frozen[index].state.isSame(tensor); }
  size_t numArguments() const { return frozen.size(); }
  uint32_t position(size_t index) const { return frozen[index].position; }
  const std::vector<at::Tensor> &constants() const { return values; }

  /// Of the program's dispatcher call with this number; null if its weight is not constant.
  const PackedWeight *weight(uint32_t externNumber) const {
    return externNumber < weights.size() ? weights[externNumber].get() : nullptr;
  }
  size_t numPacked() const;

private:
  std::vector<Argument> frozen; // by position
  std::vector<at::Tensor> values;
  std::vector<std::shared_ptr<const PackedWeight>> weights; // by number of the call
};

} // namespace torch_tile::runtime
