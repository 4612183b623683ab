#include "runtime/memory/OperatorAllocator.h"
#include "runtime/memory/BufferPool.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <exception>

namespace torch_tile::runtime {
namespace {

thread_local int depth = 0;

class OperatorAllocator final : public c10::Allocator {
public:
  explicit OperatorAllocator(c10::Allocator *original) : original(original) {}

  c10::DataPtr allocate(size_t numBytes) override {
    return depth > 0 && numBytes >= BufferPool::minBytes ? BufferPool::get().allocate(numBytes)
                                                         : allocateOutsidePool(numBytes);
  }
  bool is_simple_data_ptr(const c10::DataPtr &pointer) const override { return original->is_simple_data_ptr(pointer); }
  /// Of memory that is taken without an owner. Such requests do not say who they are, so any block may come back here.
  c10::DeleterFnPtr raw_deleter() const override { return &deleteRaw; }
  void copy_data(void *dest, const void *src, size_t count) const override { original->copy_data(dest, src, count); }

  c10::Allocator *const original;

private:
  static void deleteRaw(void *address);
};

std::atomic<OperatorAllocator *> installed = nullptr;

void OperatorAllocator::deleteRaw(void *address) {
  if (!BufferPool::get().releaseIfOwn(address))
    installed.load(std::memory_order_acquire)->original->raw_deallocate(address);
}

} // namespace

PooledOperators::PooledOperators() { ++depth; }
PooledOperators::~PooledOperators() { --depth; }

void installOperatorAllocator() {
  if (installed.load(std::memory_order_acquire))
    return;
  auto *allocator = new OperatorAllocator(c10::GetCPUAllocator()); // as long as the process
  installed.store(allocator, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  c10::SetCPUAllocator(allocator);
}

c10::DataPtr allocateOutsidePool(size_t numBytes) {
  OperatorAllocator *allocator = installed.load(std::memory_order_acquire);
  c10::Allocator *original = allocator ? allocator->original : c10::GetCPUAllocator();
  try {
    return original->allocate(numBytes);
  } catch (const std::exception &) {
    if (!BufferPool::get().clear())
      throw;
  }
  return original->allocate(numBytes);
}

} // namespace torch_tile::runtime
