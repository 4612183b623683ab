// Kernels written by hand, as the compiler would emit them.
#include "artifact/KernelAbi.h"

#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace torch_tile;

extern "C" {

/// out[i] = a[i] + b[i]; integers: {elements per program, total}.
int32_t addKernel(const KernelArgs *args, KernelContext *, int64_t begin, int64_t end) {
  auto *a = static_cast<const float *>(args->pointers[0]), *b = static_cast<const float *>(args->pointers[1]);
  auto *out = static_cast<float *>(args->pointers[2]);
  int64_t block = args->integers[0], total = args->integers[1];
  for (int64_t i = begin * block; i < end * block && i < total; ++i)
    out[i] = a[i] + b[i];
  return 0;
}

/// out[p] = table[index[p]] by way of scratch; integers: {table size}.
int32_t gatherKernel(const KernelArgs *args, KernelContext *context, int64_t begin, int64_t end) {
  auto *table = static_cast<const float *>(args->pointers[0]);
  auto *index = static_cast<const int64_t *>(args->pointers[1]);
  auto *out = static_cast<float *>(args->pointers[2]);
  auto *scratch = static_cast<float *>(context->scratch);
  for (int64_t p = begin; p < end; ++p) {
    if (index[p] < 0 || index[p] >= args->integers[0]) {
      context->error[0] = index[p];
      context->error[1] = args->integers[0];
      return static_cast<int32_t>(KernelError::IndexOutOfRange);
    }
    scratch[p % 16] = table[index[p]];
    out[p] = scratch[p % 16];
  }
  return 0;
}

/// out[p] = the thread's flush-to-zero bits; integers: {spins per program}.
int32_t modeKernel(const KernelArgs *args, KernelContext *, int64_t begin, int64_t end) {
  auto *out = static_cast<int64_t *>(args->pointers[0]);
  for (int64_t p = begin; p < end; ++p) {
    volatile double x = 1;
    for (int64_t i = 0; i < args->integers[0]; ++i)
      x = x * 1.0000001;
#if defined(__x86_64__)
    out[p] = _mm_getcsr() & 0x8040;
#else
    out[p] = 0;
#endif
  }
  return 0;
}
}
