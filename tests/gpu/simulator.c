// Runs kernels made for a GPU on the CPU: the threads of a block are coroutines, which take turns from barrier to
// barrier, and blocks run one after the other. A warp exchanges values through an array.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { maxThreads = 1024, stackBytes = 1 << 17 };

static ucontext_t scheduler, threads[maxThreads];
static char *stacks;
static int isDone[maxThreads];
static int32_t current, numThreads, block[3], grid[3];
static uint32_t posted[maxThreads];
static int hasFailed;
static void (*entry)(void **);
static void **arguments;

static void sync(void) { swapcontext(&threads[current], &scheduler); }

int32_t sim_tid_x(void) { return current; }
int32_t sim_ctaid_x(void) { return block[0]; }
int32_t sim_ctaid_y(void) { return block[1]; }
int32_t sim_ctaid_z(void) { return block[2]; }
int32_t sim_nctaid_x(void) { return grid[0]; }
int32_t sim_nctaid_y(void) { return grid[1]; }
int32_t sim_nctaid_z(void) { return grid[2]; }
void sim_barrier(int32_t id) { sync(); }

static uint32_t exchange(uint32_t value, int32_t lane) {
  posted[current] = value;
  sync();
  uint32_t result = posted[(current & ~31) | (lane & 31)];
  sync();
  return result;
}
uint32_t sim_shfl_bfly(uint32_t mask, uint32_t value, uint32_t distance, uint32_t c) {
  return exchange(value, (current & 31) ^ (int32_t)distance);
}
uint32_t sim_shfl_idx(uint32_t mask, uint32_t value, uint32_t lane, uint32_t c) { return exchange(value, (int32_t)lane); }

// Instructions that approximate.
float sim_ex2(float x) { return exp2f(x); }
float sim_rcp(float x) { return 1 / x; }
float sim_div(float x, float y) { return x / y; }

// What clang calls to round.
__bf16 __truncsfbf2(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint16_t high = x != x ? (uint16_t)(bits >> 16) | 0x40 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  __bf16 result;
  memcpy(&result, &high, sizeof result);
  return result;
}

void __assertfail(const char *message, const char *file, int32_t line, const char *function, int64_t size) {
  fprintf(stderr, "block (%d, %d, %d), thread %d: %s\n", block[0], block[1], block[2], current, message);
  hasFailed = 1;
}

// Formats of one conversion for each argument, which are 8 bytes each.
int32_t vprintf_device(const char *format, const uint64_t *values) {
  char piece[64];
  while (*format) {
    if (*format != '%' || format[1] == '%') {
      putchar(*format);
      format += *format == '%' ? 2 : 1;
      continue;
    }
    size_t size = strcspn(format + 1, "diuxafp") + 2;
    memcpy(piece, format, size);
    piece[size] = 0;
    format += size;
    double number;
    memcpy(&number, values, sizeof number);
    if (strchr("af", piece[size - 1]))
      printf(piece, number);
    else
      printf(piece, (long long)*values);
    ++values;
  }
  return 0;
}

static void runThread(void) {
  entry(arguments);
  isDone[current] = 1;
  swapcontext(&threads[current], &scheduler);
}

int32_t simulate(void (*kernel)(void **), void **values, int32_t threadCount, int32_t x, int32_t y, int32_t z) {
  if (!stacks)
    stacks = malloc((size_t)maxThreads * stackBytes);
  entry = kernel, arguments = values, numThreads = threadCount, hasFailed = 0;
  grid[0] = x, grid[1] = y, grid[2] = z;
  int32_t isReversed = getenv("TORCH_TILE_SIMULATE_REVERSED") != NULL;
  for (block[2] = 0; block[2] < z; ++block[2])
    for (block[1] = 0; block[1] < y; ++block[1])
      for (block[0] = 0; block[0] < x; ++block[0]) {
        for (int32_t k = 0; k < numThreads; ++k) {
          getcontext(&threads[k]);
          threads[k].uc_stack.ss_sp = stacks + (size_t)k * stackBytes;
          threads[k].uc_stack.ss_size = stackBytes;
          makecontext(&threads[k], runThread, 0);
          isDone[k] = 0;
        }
        for (int32_t left = numThreads; left > 0;) {
          left = 0;
          for (int32_t k = 0; k < numThreads; ++k) {
            current = isReversed ? numThreads - 1 - k : k;
            if (isDone[current])
              continue;
            swapcontext(&scheduler, &threads[current]);
            left += !isDone[current];
          }
        }
      }
  fflush(stdout);
  return hasFailed;
}
