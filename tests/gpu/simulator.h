// What the parts of the simulator know of each other. Threads are coroutines of one thread of the processor.
#include <stdint.h>

enum { maxThreads = 1024, warpSize = 32, groupSize = 128 };

/// Shared memory lies at one address below 4 GB, so that 32 bits of an address are enough, and descriptors of matrices
/// can be read back. The heap of a Python that is not position-independent grows from the lowest addresses on, as large
/// as the tests that ran before.
#define sharedStart ((char *)0x70000000)
enum { sharedSpace = 256 << 10 };

extern int32_t simThread, simNumThreads; // the one that runs, and how many a block has

/// Reports that the program does what it must not, and remembers it; the launch fails at its end.
void simFail(const char *format, ...);

/// Waits for the other threads of a warp (or of a group of four) at the same instruction. `values` are what each posts;
/// the result is what all have posted, by the number of the thread in the warp or group.
typedef uint64_t Posted[24];
const Posted *simMeet(int32_t count, uint32_t mask, const char *instruction, const uint64_t *values, int32_t numValues);

/// Begins and ends a block: what instructions remember.
void simBeginBlock(void);

/// Whether `bytes` from `pointer` are shared memory, from a multiple of `alignment`; reports what is not.
int simIsShared(const char *instruction, const char *pointer, uint64_t bytes, uint64_t alignment);
