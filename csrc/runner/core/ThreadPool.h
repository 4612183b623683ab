// Threads of the core, shared by all models of a process.
#pragma once

#include <cstdint>
#include <functional>

namespace torch_tile::runner {

/// Threads that one call may use: OMP_NUM_THREADS, else one for each processor that this process may run on.
int32_t defaultNumThreads();

/// Calls `body` on disjoint ranges that cover [0, count), of at least `grain` each but for the last, on the calling
/// thread and up to `numThreads - 1` others. Any number of threads may call at once; none waits for another's work.
void parallelFor(int64_t count, int64_t grain, int32_t numThreads,
                 const std::function<void(int64_t begin, int64_t end)> &body);

} // namespace torch_tile::runner
