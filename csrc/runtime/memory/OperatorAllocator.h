// Results and temporaries of torch's operators in the memory of BufferPool, while a program calls them.
#pragma once

#include <c10/core/Allocator.h>

namespace torch_tile::runtime {

/// On this thread, and for CPU memory: operators that are called while one of these lives allocate from the pool. The C
/// library gives large blocks back to the system whenever the last one at the end of its heap is freed, and filling new
/// pages may take as long as a convolution's share of its arithmetic.
///
/// torch asks one allocator for all CPU memory; the first scope puts one before it that hands everything else on. If a
/// library has reserved that place (by priority), nothing changes.
class PooledOperators {
public:
  PooledOperators();
  ~PooledOperators();
  PooledOperators(const PooledOperators &) = delete;
  PooledOperators &operator=(const PooledOperators &) = delete;
};

/// torch's allocator as it was found, which never leads back to the pool.
c10::Allocator *originalCpuAllocator();

} // namespace torch_tile::runtime
