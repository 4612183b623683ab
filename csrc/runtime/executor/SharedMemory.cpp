#include "runtime/executor/SharedMemory.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace torch_tile::runtime {

Places::Places(const artifact::Body &source) : ofSlots(source.numSlots) {
  for (const artifact::SharedSlot &shared : source.sharedSlots)
    ofSlots[shared.slot].assign(shared.places.begin(), shared.places.end());
}

void Places::append(artifact::SlotId slot, std::vector<Place> &places) const {
  constexpr Place own = Place(1) << 32;
  if (ofSlots[slot].empty())
    places.push_back(own + slot);
  else
    places.insert(places.end(), ofSlots[slot].begin(), ofSlots[slot].end());
}

namespace {

struct Dim {
  int64_t stride, size;
};

/// Dimensions of more than one element in bytes, the largest stride first.
std::vector<Dim> dimsOf(const at::Tensor &tensor) {
  auto itemBytes = static_cast<int64_t>(tensor.element_size());
  std::vector<Dim> dims;
  for (int64_t k = 0; k < tensor.dim(); ++k)
    if (tensor.size(k) > 1 && tensor.stride(k) != 0)
      dims.push_back({tensor.stride(k) * itemBytes, tensor.size(k)});
  std::sort(dims.begin(), dims.end(), [](const Dim &a, const Dim &b) { return a.stride > b.stride; });
  return dims;
}

/// Whether boxes of a common grid, such as columns of one matrix, lie apart. `distance` is that of their beginnings.
bool areApart(const std::vector<Dim> &first, const std::vector<Dim> &second, int64_t distance, int64_t itemBytes) {
  // What is between the strides of both leaves a remainder that no element of either bridges.
  int64_t common = 0;
  for (const std::vector<Dim> *dims : {&first, &second})
    for (const Dim &dim : *dims)
      common = std::gcd(common, dim.stride);
  if (common > 0 && distance % common >= itemBytes && distance % common <= common - itemBytes)
    return true;
  // Digits of the distance in the strides of the larger grid; each box must end before the next row begins.
  std::vector<int64_t> strides;
  for (const std::vector<Dim> *dims : {&first, &second})
    for (const Dim &dim : *dims)
      strides.push_back(dim.stride);
  std::sort(strides.begin(), strides.end(), std::greater<>());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  auto sizeAlong = [](const std::vector<Dim> &dims, int64_t stride) {
    int64_t size = 1;
    for (const Dim &dim : dims)
      if (dim.stride == stride)
        size = size == 1 ? dim.size : -1;
    return size;
  };
  bool isApart = false;
  int64_t row = 0;
  for (int64_t stride : strides) {
    int64_t mine = sizeAlong(first, stride), other = sizeAlong(second, stride);
    if (stride <= 0 || mine < 0 || other < 0 || (row > 0 && row % stride != 0))
      return false;
    int64_t digit = distance / stride;
    distance %= stride;
    if (row > 0 && (mine > row / stride || digit + other > row / stride))
      return false; // it goes on in the next row
    isApart |= digit >= mine;
    row = stride;
  }
  return isApart && distance == 0;
}

} // namespace

MemoryRange memoryOf(const at::Tensor &tensor) {
  auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  auto bytes = static_cast<uintptr_t>(tensor.element_size());
  for (int64_t k = 0; k < tensor.dim(); ++k)
    bytes += static_cast<uintptr_t>((tensor.size(k) - 1) * tensor.stride(k)) * tensor.element_size();
  return {begin, begin + bytes};
}

bool mayOverlap(const at::Tensor &a, const at::Tensor &b) {
  if (a.numel() == 0 || b.numel() == 0)
    return false;
  MemoryRange rangeA = memoryOf(a), rangeB = memoryOf(b);
  if (rangeA.end <= rangeB.begin || rangeB.end <= rangeA.begin)
    return false;
  auto itemA = static_cast<int64_t>(a.element_size()), itemB = static_cast<int64_t>(b.element_size());
  if (itemA != itemB)
    return true;
  const std::vector<Dim> dimsA = dimsOf(a), dimsB = dimsOf(b);
  return rangeA.begin <= rangeB.begin
             ? !areApart(dimsA, dimsB, static_cast<int64_t>(rangeB.begin - rangeA.begin), itemA)
             : !areApart(dimsB, dimsA, static_cast<int64_t>(rangeA.begin - rangeB.begin), itemA);
}

} // namespace torch_tile::runtime
