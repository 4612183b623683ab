#include "runtime/launch/cpu/ParallelFor.h"

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <atomic>
#include <exception>

// libgomp's interface, which LLVM's libomp has too: what GCC calls for `#pragma omp parallel`.
extern "C" {
void GOMP_parallel(void (*region)(void *), void *data, unsigned numThreads, unsigned flags);
int omp_get_num_threads();
int omp_get_thread_num();
}

namespace torch_tile::runtime {
namespace {

struct Region {
  int64_t begin, end, grain;
  c10::function_ref<void(int64_t, int64_t)> body;
  std::atomic_flag hasFailed = ATOMIC_FLAG_INIT;
  std::exception_ptr failure = nullptr;
};

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

void runShare(void *data) {
  Region &region = *static_cast<Region *>(data);
  int64_t length = region.end - region.begin, numThreads = omp_get_num_threads(), thread = omp_get_thread_num();
  numThreads = std::min(numThreads, ceilDiv(length, region.grain));
  int64_t share = ceilDiv(length, numThreads), from = region.begin + thread * share;
  if (from >= region.end)
    return;
  try {
    at::internal::ThreadIdGuard id(static_cast<int>(thread));
    c10::ParallelGuard guard(true);
    region.body(from, std::min(region.end, from + share));
  } catch (...) {
    if (!region.hasFailed.test_and_set())
      region.failure = std::current_exception();
  }
}

} // namespace

void parallelFor(int64_t begin, int64_t end, int64_t grain, c10::function_ref<void(int64_t, int64_t)> body) {
  if (begin >= end)
    return;
  at::internal::lazy_init_num_threads();
  if (end - begin <= std::max<int64_t>(1, grain) || at::in_parallel_region() || at::get_num_threads() == 1) {
    at::internal::ThreadIdGuard id(0);
    c10::ParallelGuard guard(true);
    body(begin, end);
    return;
  }
  Region region{begin, end, std::max<int64_t>(1, grain), body};
  GOMP_parallel(runShare, &region, 0, 0);
  if (region.failure)
    std::rethrow_exception(region.failure);
}

} // namespace torch_tile::runtime
