#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace torch_tile::runtime {

/// `at::parallel_for` with ATen's threads, whichever compiler builds this file. ATen's own is a template whose
/// `#pragma omp` only GCC turns into calls of libgomp, the OpenMP library that torch brings: Clang's code needs another
/// library with threads of its own, and without -fopenmp the template runs everything on one thread.
///
/// Calls `body(from, to)` for ranges that cover [begin, end), none shorter than `grain` but the last, in parallel. What
/// `body` throws is thrown here. The caller has seen to it that threads pay: it is in no parallel region.
void parallelFor(int64_t begin, int64_t end, int64_t grain, c10::function_ref<void(int64_t from, int64_t to)> body);

} // namespace torch_tile::runtime
