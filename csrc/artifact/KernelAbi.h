// The calling convention between generated CPU kernels and the runtime.
#pragma once

#include <cstdint>

namespace torch_tile {

/// What a kernel reads and writes. Scalars that are not sizes travel bit-cast in `integers`.
struct KernelArgs {
  void *const *pointers;
  const int64_t *integers;
};

/// Codes a kernel may return; anything but Ok leaves its details in KernelContext::error.
enum class KernelError : int32_t { Ok = 0, IndexOutOfRange = 1, DivisionByZero = 2, Assertion = 3 };

/// One per thread and launch.
struct KernelContext {
  /// At least Launch::scratchBytes, 64-byte aligned, contents undefined at the start of every program.
  void *scratch;
  /// IndexOutOfRange: {index, size, place of the check (CheckPlace.h)}. DivisionByZero: {-, -, place}. Assertion:
  /// {address of the message, which lives as long as the code}.
  int64_t error[3];
};

/// Runs programs [begin, end) of the grid. Returns a KernelError; programs after a failing one may not have run.
using KernelFn = int32_t (*)(const KernelArgs *, KernelContext *, int64_t begin, int64_t end);

} // namespace torch_tile
