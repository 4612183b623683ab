#include "runner/core/Buffers.h"

#include <cstdlib>
#include <new>

namespace torch_tile::runner {

Buffers::~Buffers() {
  for (auto &[size, memory] : kept)
    std::free(memory);
}

std::shared_ptr<char> Buffers::take(size_t sizeBytes) {
  if (sizeBytes > SIZE_MAX / 2)
    throw std::bad_alloc();
  size_t rounded = sizeBytes == 0 ? alignBytes : (sizeBytes + alignBytes - 1) / alignBytes * alignBytes;
  char *memory = nullptr;
  {
    std::lock_guard lock(mutex);
    // A block of up to twice the size wastes less than a fresh one costs.
    if (auto it = kept.lower_bound(rounded); it != kept.end() && it->first <= 2 * rounded) {
      rounded = it->first;
      memory = it->second;
      keptBytes -= rounded;
      kept.erase(it);
    }
  }
  if (!memory)
    memory = static_cast<char *>(std::aligned_alloc(alignBytes, rounded));
  if (!memory)
    throw std::bad_alloc();
  return {memory, [self = shared_from_this(), rounded](char *block) { self->give(block, rounded); }};
}

void Buffers::give(char *memory, size_t sizeBytes) noexcept {
  try {
    std::lock_guard lock(mutex);
    if (keptBytes + sizeBytes <= mostKeptBytes) {
      kept.emplace(sizeBytes, memory);
      keptBytes += sizeBytes;
      return;
    }
  } catch (...) { // no memory for the entry
  }
  std::free(memory);
}

} // namespace torch_tile::runner
