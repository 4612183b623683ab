// Runs kernels made for a GPU on the CPU: the threads of a block are coroutines, which take turns from barrier to
// barrier, and blocks run one after the other. A warp exchanges values through an array.
#include "simulator.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { stackBytes = 1 << 17 };

int32_t simThread, simNumThreads;
static int32_t block[3], grid[3];
static int hasFailed;
static void (*entry)(void **);
static void **arguments;

void simFail(const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (!hasFailed) { // the first one is the cause of the others
    fprintf(stderr, "block (%d, %d, %d), thread %d: ", block[0], block[1], block[2], simThread);
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
  }
  va_end(list);
  hasFailed = 1;
}

int simIsShared(const char *instruction, const char *pointer, uint64_t bytes, uint64_t alignment) {
  if (pointer < sharedStart || pointer + bytes > sharedStart + sharedSpace)
    simFail("%s: %p is not in shared memory", instruction, (void *)pointer);
  else if ((uintptr_t)pointer % alignment)
    simFail("%s: address %td of shared memory is no multiple of %d", instruction, pointer - sharedStart,
            (int)alignment);
  else
    return 1;
  return 0;
}

//===-- threads -------------------------------------------------------------------------------------------------===//

/// What a thread waits for: others of its warp or group, or of the block at the barrier `id`.
enum Waiting { Nothing, Others, Barrier, End };
static struct Thread {
  void *stack; // the pointer to it, while the thread does not run
  enum Waiting waiting;
  int32_t count, id;
  uint32_t mask;
  const char *instruction;
  int32_t meetings; // how often it has met others
} threads[maxThreads];
static char *stacks;
static void *schedulerStack;

/// Saves the registers that calls keep, and continues with another stack.
void simSwitch(void **save, void *next);
__asm__(".text\n"
        ".p2align 4\n"
        ".globl simSwitch\n"
        ".type simSwitch, @function\n"
        "simSwitch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n");

static void wait(enum Waiting waiting) {
  struct Thread *thread = &threads[simThread];
  thread->waiting = waiting;
  simSwitch(&thread->stack, schedulerStack);
}

static void runThread(void) {
  entry(arguments);
  wait(End);
}

static void startThread(int32_t k) {
  memset(&threads[k], 0, sizeof threads[k]);
  void **top = (void **)(stacks + (size_t)(k + 1) * stackBytes) - 1; // as after a call: 8 bytes beside a multiple of 16
  *--top = (void *)&runThread;
  threads[k].stack = top - 6;
}

static Posted posted[2][maxThreads];

const Posted *simMeet(int32_t count, uint32_t mask, const char *instruction, const uint64_t *values,
                      int32_t numValues) {
  struct Thread *thread = &threads[simThread];
  // Nobody is two meetings ahead of another one: two arrays are enough.
  Posted *all = posted[thread->meetings++ & 1];
  memcpy(all[simThread], values, (size_t)numValues * sizeof *values);
  thread->count = count, thread->mask = mask, thread->instruction = instruction;
  wait(Others);
  return (const Posted *)all + (simThread & -count);
}

static void barrier(int32_t id, int32_t count) {
  struct Thread *thread = &threads[simThread];
  thread->id = id, thread->count = count, thread->instruction = "barrier";
  wait(Barrier);
}

/// Lets threads go on that have all met. Returns how many.
static int32_t releaseMeetings(void) {
  int32_t released = 0;
  for (int32_t k = 0; k < simNumThreads; ++k) {
    struct Thread *first = &threads[k];
    if (first->waiting != Others)
      continue;
    int32_t start = k & -first->count, end = start + first->count;
    int areAllHere = 1;
    for (int32_t j = start; j < end && j < simNumThreads; ++j) {
      struct Thread *other = &threads[j];
      if (other->waiting == End || !(first->mask >> (j & 31) & 1))
        continue;
      areAllHere &= other->waiting == Others && other->count == first->count;
      if (areAllHere && strcmp(other->instruction, first->instruction)) {
        simFail("threads %d and %d of a warp meet at different instructions: %s and %s", k, j, first->instruction,
                other->instruction);
      }
    }
    for (int32_t j = start; areAllHere && j < end && j < simNumThreads; ++j)
      if (threads[j].waiting == Others && (first->mask >> (j & 31) & 1))
        threads[j].waiting = Nothing, ++released;
  }
  return released;
}

static int32_t releaseBarriers(void) {
  int32_t released = 0;
  for (int32_t k = 0; k < simNumThreads; ++k) {
    if (threads[k].waiting != Barrier)
      continue;
    int32_t here = 0, running = 0;
    for (int32_t j = 0; j < simNumThreads; ++j) {
      running += threads[j].waiting != End;
      here += threads[j].waiting == Barrier && threads[j].id == threads[k].id;
    }
    if (here < (threads[k].count ? threads[k].count : running))
      continue;
    for (int32_t id = threads[k].id, j = 0; j < simNumThreads; ++j)
      if (threads[j].waiting == Barrier && threads[j].id == id)
        threads[j].waiting = Nothing, ++released;
  }
  return released;
}

static void runBlock(int isReversed) {
  for (;;) {
    int32_t left = 0, ran = 0;
    for (int32_t k = 0; k < simNumThreads; ++k) {
      simThread = isReversed ? simNumThreads - 1 - k : k;
      if (threads[simThread].waiting == Nothing)
        simSwitch(&schedulerStack, threads[simThread].stack), ++ran;
      left += threads[simThread].waiting != End;
    }
    if (!left)
      return;
    if (releaseMeetings() + releaseBarriers() == 0 && ran == 0) {
      for (simThread = 0; threads[simThread].waiting == End;)
        ++simThread;
      simFail("waits at %s without end, for the other threads are elsewhere", threads[simThread].instruction);
      return;
    }
  }
}

//===-- what kernels call ---------------------------------------------------------------------------------------===//

int32_t sim_tid_x(void) { return simThread; }
int32_t sim_ctaid_x(void) { return block[0]; }
int32_t sim_ctaid_y(void) { return block[1]; }
int32_t sim_ctaid_z(void) { return block[2]; }
int32_t sim_nctaid_x(void) { return grid[0]; }
int32_t sim_nctaid_y(void) { return grid[1]; }
int32_t sim_nctaid_z(void) { return grid[2]; }
void sim_barrier(int32_t id) { barrier(id, 0); }
void sim_barrier_count(int32_t id, int32_t count) { barrier(id, count); }
void sim_warp(uint32_t mask) { simMeet(warpSize, mask, "bar.warp.sync", NULL, 0); }

static uint32_t exchange(uint32_t mask, uint32_t value, int32_t lane) {
  uint64_t mine = value;
  return (uint32_t)simMeet(warpSize, mask, "shfl", &mine, 1)[lane & 31][0];
}
uint32_t sim_shfl_bfly(uint32_t mask, uint32_t value, uint32_t distance, uint32_t c) {
  return exchange(mask, value, (simThread & 31) ^ (int32_t)distance);
}
uint32_t sim_shfl_idx(uint32_t mask, uint32_t value, uint32_t lane, uint32_t c) {
  return exchange(mask, value, (int32_t)lane);
}
uint32_t sim_shfl_up(uint32_t mask, uint32_t value, uint32_t distance, uint32_t bound) {
  int32_t lane = simThread & 31, from = lane - (int32_t)distance;
  return exchange(mask, value, from < (int32_t)bound ? lane : from);
}
uint32_t sim_shfl_down(uint32_t mask, uint32_t value, uint32_t distance, uint32_t bound) {
  int32_t lane = simThread & 31, from = lane + (int32_t)distance;
  return exchange(mask, value, from > (int32_t)bound ? lane : from);
}

// Instructions that approximate.
/// Four bytes of eight, by four bits each; the highest repeats the sign.
uint32_t sim_prmt(uint32_t low, uint32_t high, uint32_t selector) {
  uint64_t bytes = (uint64_t)high << 32 | low;
  uint32_t result = 0;
  for (int32_t k = 0; k < 4; ++k) {
    uint32_t which = selector >> (4 * k) & 15, byte = (uint32_t)(bytes >> (8 * (which & 7))) & 255;
    if (which & 8)
      byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * k);
  }
  return result;
}

/// To 10 bits of the mantissa, half away from zero. The bits below are undefined: they are 1 here.
uint32_t sim_f2tf32_rna(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x)
    return 0x7fffffff;
  return ((bits + 0x1000) & 0xffffe000) | ((bits & 0x7f800000) == 0x7f800000 ? 0 : 0x1fff);
}

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
  simFail("%s", message);
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

//===-- launches ------------------------------------------------------------------------------------------------===//

static void makeMemory(void) {
  stacks = aligned_alloc(64, (size_t)maxThreads * stackBytes);
  void *memory = mmap(sharedStart, sharedSpace, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (!stacks || memory != sharedStart) {
    fprintf(stderr, "the simulator finds no room for shared memory at %p\n", (void *)sharedStart);
    abort();
  }
}

int32_t simulate(void (*kernel)(void **), void **values, int32_t sharedBytes, int32_t threadCount, int32_t x, int32_t y,
                 int32_t z) {
  if (!stacks)
    makeMemory();
  entry = kernel, arguments = values, simNumThreads = threadCount, hasFailed = 0;
  grid[0] = x, grid[1] = y, grid[2] = z;
  int isReversed = getenv("TORCH_TILE_SIMULATE_REVERSED") != NULL;
  for (block[2] = 0; block[2] < z; ++block[2])
    for (block[1] = 0; block[1] < y; ++block[1])
      for (block[0] = 0; block[0] < x && !hasFailed; ++block[0]) {
        memset(sharedStart, 0xff, (size_t)sharedBytes); // nothing that a block may rely on; NaN as a float
        simBeginBlock();
        for (int32_t k = 0; k < simNumThreads; ++k)
          startThread(k);
        runBlock(isReversed);
      }
  fflush(stdout);
  return hasFailed;
}
