// Results and temporaries of torch's operators in the memory of BufferPool, while a program calls them.
#pragma once

#include <c10/core/Allocator.h>

namespace torch_tile::runtime {

/// On this thread, and for CPU memory: operators that are called while one of these lives allocate from the pool. The C
/// library gives large blocks back to the system whenever the last one at the end of its heap is freed, and filling new
/// pages may take as long as a convolution's share of its arithmetic.
///
/// torch asks one allocator for all CPU memory; `installOperatorAllocator` puts one before it that hands everything
/// else on.
class PooledOperators {
public:
  PooledOperators();
  ~PooledOperators();
  PooledOperators(const PooledOperators &) = delete;
  PooledOperators &operator=(const PooledOperators &) = delete;
};

/// Puts our allocator before torch's, for good; done when the extension is imported. If a library has reserved that
/// place (by priority), nothing changes.
///
/// c10 asks for this during initialisation because its pointer is a plain one. Other threads may well use torch by now,
/// which is sound all the same: the pointer is aligned and stored in one instruction, so they read the old one or the
/// new one; both serve any request; a block remembers how it is freed; and the new object is complete before its
/// address is stored.
void installOperatorAllocator();

/// Memory of torch's own allocator, never of the pool. What the pool keeps is given back first where there would
/// otherwise be too little. Throws c10::Error where there is too little even then.
c10::DataPtr allocateOutsidePool(size_t numBytes);

} // namespace torch_tile::runtime
