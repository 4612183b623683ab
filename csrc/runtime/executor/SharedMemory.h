// Which slots of a program may share memory, and which of its inputs do.
#pragma once

#include "artifact/Artifact.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <vector>

namespace torch_tile::runtime {

/// A piece of memory: what the compiler numbered where slots may share it, else the slot's own.
using Place = uint64_t;

/// Where what a slot holds may lie.
class Places {
public:
  explicit Places(const artifact::Body &source);
  void append(artifact::SlotId slot, std::vector<Place> &places) const;

private:
  std::vector<std::vector<Place>> ofSlots;
};

/// Addresses, from the first byte to behind the last.
struct MemoryRange {
  uintptr_t begin, end;
};

/// From the first element of a tensor to its last, whatever storage it has. It has elements.
MemoryRange memoryOf(const at::Tensor &tensor);

/// Whether two tensors may have an element in common. Exact for views of one tensor that slices make.
bool mayOverlap(const at::Tensor &a, const at::Tensor &b);

/// An input that the program writes has memory in common with another one. Nothing has been run or written yet.
class OverlappingInputs : public std::exception {
public:
  const char *what() const noexcept override {
    return "two inputs share memory, one of them is written, and the graph was compiled for inputs that do not";
  }
};

} // namespace torch_tile::runtime
