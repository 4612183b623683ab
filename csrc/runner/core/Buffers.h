// Memory of intermediate tensors and results. Freed blocks are kept for the next call, for fresh pages cost more than
// what most kernels compute.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace torch_tile::runner {

/// One for each model. Blocks keep it alive, so results may outlive the model.
class Buffers : public std::enable_shared_from_this<Buffers> {
public:
  static constexpr size_t alignBytes = 64, mostKeptBytes = size_t(256) << 20;

  ~Buffers();
  /// Uninitialised; throws std::bad_alloc.
  std::shared_ptr<char> take(size_t sizeBytes);

private:
  void give(char *memory, size_t sizeBytes) noexcept;

  std::mutex mutex;
  std::multimap<size_t, char *> kept;
  size_t keptBytes = 0;
};

} // namespace torch_tile::runner
