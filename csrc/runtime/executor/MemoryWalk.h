// Memory that a program holds, step by step, as far as sizes are constant.
#pragma once

#include "runtime/executor/Program.h"
#include "runtime/executor/SharedMemory.h"

#include <algorithm>
#include <unordered_map>

namespace torch_tile::runtime {

/// Bytes behind slots. Slots that share memory hold it together.
class HeldBytes {
public:
  void add(artifact::SlotId slot, int64_t bytes) {
    free(slot);
    blockOf[slot] = next;
    blocks[next++] = {bytes, 1};
    current += bytes;
    peak = std::max(peak, current);
  }
  void share(artifact::SlotId slot, artifact::SlotId other) {
    auto it = blockOf.find(other);
    if (it == blockOf.end() || slot == other)
      return;
    uint32_t block = it->second;
    ++blocks[block].users;
    free(slot);
    blockOf[slot] = block;
  }
  bool has(artifact::SlotId slot) const { return blockOf.count(slot) != 0; }
  /// Returns the bytes that nothing holds any more.
  int64_t free(artifact::SlotId slot) {
    auto it = blockOf.find(slot);
    if (it == blockOf.end())
      return 0;
    auto block = blocks.find(it->second);
    blockOf.erase(it);
    if (--block->second.users > 0)
      return 0;
    int64_t bytes = block->second.bytes;
    blocks.erase(block);
    current -= bytes;
    return bytes;
  }

  int64_t current = 0, peak = 0;

private:
  struct Block {
    int64_t bytes = 0;
    uint32_t users = 0;
  };
  std::unordered_map<artifact::SlotId, uint32_t> blockOf;
  std::unordered_map<uint32_t, Block> blocks;
  uint32_t next = 0;
};

/// A walk along the steps of a program, with launches one by one.
class MemoryWalk {
public:
  explicit MemoryWalk(const Program &program);
  /// Returns the bytes that the step gives back.
  int64_t take(Program::StepRef step);
  int64_t current() const { return held.current; }
  int64_t peak() const { return held.peak; }

private:
  int64_t bytesOf(const Program::Shape &shape, at::ScalarType type) const;
  int64_t bytesOf(const artifact::Result &result) const;
  void takeResults(const std::vector<artifact::Result> &results);
  /// The first slot that may lie where this one does.
  artifact::SlotId ownerOf(artifact::SlotId slot);

  const Program &program;
  const Places places;
  std::unordered_map<Place, artifact::SlotId> owners;
  HeldBytes held;
};

} // namespace torch_tile::runtime
