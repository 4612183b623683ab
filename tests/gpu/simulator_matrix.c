// What warps do together with matrices, and copies that happen later, by the documentation of PTX: mma.sync, ldmatrix,
// stmatrix, cp.async, wgmma. Operands arrive as 64 bits each.
#include "simulator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int32_t lane(void) { return simThread & 31; }

//===-- elements ------------------------------------------------------------------------------------------------===//

enum Element { F16, BF16, S8, U8, TF32, E4M3, E5M2 };
static int32_t bytesOf(enum Element element) { return element == TF32 ? 4 : element <= BF16 ? 2 : 1; }

static float floatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static double decode(enum Element element, uint32_t bits) {
  uint16_t half = (uint16_t)(element == E5M2 ? bits << 8 : bits);
  _Float16 value;
  switch (element) {
  case E5M2:
  case F16:
    memcpy(&value, &half, sizeof value);
    return (double)value;
  case BF16:
    return floatOf(bits << 16);
  case S8:
    return (int8_t)bits;
  case U8:
    return (uint8_t)bits;
  case TF32:
    return floatOf(bits & 0xffffe000);
  case E4M3:
    break;
  }
  int32_t exponent = bits >> 3 & 15, mantissa = bits & 7;
  double size = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
  if ((bits & 0x7f) == 0x7f)
    size = NAN;
  return bits & 0x80 ? -size : size;
}

/// One element of those that a register holds.
static double partOf(enum Element element, uint64_t word, int32_t index) {
  int32_t bits = 8 * bytesOf(element);
  uint32_t mask = bits == 32 ? 0xffffffff : (1u << bits) - 1;
  return decode(element, (uint32_t)(word >> (bits * index)) & mask);
}

/// A sum, added in float64 and rounded once; of bytes modulo 2^32.
static uint64_t addTo(enum Element element, uint64_t start, double sum, int64_t integers) {
  if (element == S8 || element == U8)
    return (uint32_t)((int64_t)(int32_t)start + integers);
  float result = (float)((double)floatOf((uint32_t)start) + sum);
  uint32_t bits;
  memcpy(&bits, &result, sizeof bits);
  return bits;
}

//===-- mma.sync ------------------------------------------------------------------------------------------------===//

/// Element (row, k) of the left operand of 16 rows by 32 bytes, from the registers of a warp; also of A in registers of
/// wgmma.
static double leftOf(const Posted *all, enum Element element, int32_t row, int32_t k) {
  int32_t each = 4 / bytesOf(element);
  int32_t thread = (row & 7) * 4 + k / each % 4, word = (row >> 3) + k / (4 * each) * 2;
  return partOf(element, all[thread][word], k % each);
}

/// Element (k, column) of the right one, whose registers follow those of the left one.
static double rightOf(const Posted *all, enum Element element, int32_t k, int32_t column) {
  int32_t each = 4 / bytesOf(element);
  return partOf(element, all[column * 4 + k / each % 4][4 + k / (4 * each)], k % each);
}

/// m16n8 of 32 bytes of depth. in: 4 words of the left operand, 2 of the right one, 4 sums.
void sim_mma(const uint64_t *in, uint64_t *out, int32_t left, int32_t right, int32_t c, int32_t d) {
  const Posted *all = simMeet(warpSize, -1u, "mma.sync", in, 6);
  int32_t depth = 32 / bytesOf((enum Element)left);
  for (int32_t i = 0; i < 4; ++i) {
    int32_t row = lane() / 4 + (i >= 2 ? 8 : 0), column = lane() % 4 * 2 + i % 2;
    double sum = 0;
    for (int32_t k = 0; k < depth; ++k)
      sum += leftOf(all, (enum Element)left, row, k) * rightOf(all, (enum Element)right, k, column);
    out[i] = addTo((enum Element)left, in[6 + i], sum, isfinite(sum) ? (int64_t)sum : 0);
  }
}

/// m8n8k4 in float64. in: an element of each operand, 2 sums.
void sim_mma_f64(const uint64_t *in, uint64_t *out, int32_t a, int32_t b, int32_t c, int32_t d) {
  const Posted *all = simMeet(warpSize, -1u, "mma.sync f64", in, 2);
  for (int32_t i = 0; i < 2; ++i) {
    double sum, left, right;
    memcpy(&sum, &in[2 + i], sizeof sum);
    for (int32_t k = 0; k < 4; ++k) {
      memcpy(&left, &all[lane() / 4 * 4 + k][0], sizeof left);
      memcpy(&right, &all[(lane() % 4 * 2 + i) * 4 + k][1], sizeof right);
      sum = fma(left, right, sum);
    }
    memcpy(&out[i], &sum, sizeof sum);
  }
}

//===-- ldmatrix, stmatrix --------------------------------------------------------------------------------------===//

/// The first 8 * count threads have the addresses of rows of 16 bytes. What they read is what they see when the warp
/// meets.
void sim_ldmatrix(const uint64_t *in, uint64_t *out, int32_t count, int32_t isTransposed, int32_t c, int32_t d) {
  uint64_t row[2] = {0, 0};
  const char *pointer = (const char *)(uintptr_t)in[0];
  if (lane() < 8 * count && simIsShared("ldmatrix", pointer, 16, 16))
    memcpy(row, pointer, sizeof row);
  const Posted *all = simMeet(warpSize, -1u, isTransposed ? "ldmatrix.trans" : "ldmatrix", row, 2);
  for (int32_t matrix = 0; matrix < count; ++matrix) {
    uint16_t two[2];
    for (int32_t j = 0; j < 2; ++j) {
      int32_t across = lane() / 4, along = lane() % 4 * 2 + j;
      const uint64_t *words = all[8 * matrix + (isTransposed ? along : across)];
      memcpy(&two[j], (const char *)words + 2 * (isTransposed ? across : along), sizeof *two);
    }
    out[matrix] = two[0] | (uint32_t)two[1] << 16;
  }
}

/// in: an address, and a word of each matrix.
void sim_stmatrix(const uint64_t *in, uint64_t *out, int32_t count, int32_t isTransposed, int32_t c, int32_t d) {
  const Posted *all = simMeet(warpSize, -1u, isTransposed ? "stmatrix.trans" : "stmatrix", in, 1 + count);
  char *pointer = (char *)(uintptr_t)in[0];
  if (lane() >= 8 * count || !simIsShared("stmatrix", pointer, 16, 16))
    return;
  for (int32_t j = 0; j < 8; ++j) {
    int32_t across = isTransposed ? j : lane() % 8, along = isTransposed ? lane() % 8 : j;
    uint32_t word = (uint32_t)all[across * 4 + along / 2][1 + lane() / 8];
    uint16_t element = (uint16_t)(along % 2 ? word >> 16 : word);
    memcpy(pointer + 2 * j, &element, sizeof element);
  }
}

//===-- cp.async ------------------------------------------------------------------------------------------------===//

typedef struct {
  char *target;
  const char *source;
  uint32_t size, sourceSize;
  int32_t group;
} Copy;

/// Of each thread: copies that have begun, and how many groups are committed.
static struct {
  Copy *copies;
  int32_t numCopies, room, numGroups;
  int isUnfenced; // what copies have written is not yet known to the units that read shared memory by descriptors
} pending[maxThreads];

/// A copy ends when it is waited for. Until then what is at its target is unknown, so reads without a wait show, and
/// copies into memory that others still read do too. in: target, source, if `hasSourceSize` the bytes to read, and if
/// `hasPredicate` whether to copy at all.
void sim_cp_async(const uint64_t *in, uint64_t *out, int32_t size, int32_t hasSourceSize, int32_t hasPredicate,
                  int32_t d) {
  if (hasPredicate && !(in[2 + hasSourceSize] & 0xffffffff))
    return;
  char *target = (char *)(uintptr_t)in[0];
  const char *source = (const char *)(uintptr_t)in[1];
  uint32_t sourceSize = hasSourceSize ? (uint32_t)in[2] : (uint32_t)size;
  if (!simIsShared("cp.async", target, (uint64_t)size, (uint64_t)size))
    return;
  if (sourceSize > (uint32_t)size || (uintptr_t)source % (uint32_t)size)
    simFail("cp.async: %u of %d bytes from %p, expected a multiple of the size", sourceSize, size, (void *)source);
  memset(target, 0xff, (size_t)size);
  if (pending[simThread].numCopies == pending[simThread].room) {
    pending[simThread].room = pending[simThread].room * 2 + 16;
    pending[simThread].copies = realloc(pending[simThread].copies, sizeof(Copy) * (size_t)pending[simThread].room);
  }
  pending[simThread].copies[pending[simThread].numCopies++] =
      (Copy){target, source, (uint32_t)size, sourceSize, pending[simThread].numGroups};
}

static void endCopies(int32_t groupsLeft) {
  int32_t kept = 0, first = pending[simThread].numGroups - groupsLeft;
  for (int32_t k = 0; k < pending[simThread].numCopies; ++k) {
    Copy copy = pending[simThread].copies[k];
    if (copy.group >= first) {
      pending[simThread].copies[kept++] = copy;
      continue;
    }
    memcpy(copy.target, copy.source, copy.sourceSize);
    memset(copy.target + copy.sourceSize, 0, copy.size - copy.sourceSize);
    pending[simThread].isUnfenced = 1;
  }
  pending[simThread].numCopies = kept;
}

void sim_cp_async_commit(const uint64_t *in, uint64_t *out, int32_t a, int32_t b, int32_t c, int32_t d) {
  ++pending[simThread].numGroups;
}
void sim_cp_async_wait(const uint64_t *in, uint64_t *out, int32_t a, int32_t b, int32_t c, int32_t d) {
  endCopies((int32_t)in[0]);
}
void sim_cp_async_wait_all(const uint64_t *in, uint64_t *out, int32_t a, int32_t b, int32_t c, int32_t d) {
  ++pending[simThread].numGroups;
  endCopies(0);
}
/// A float in 8 bits, rounded to nearest even; what is too large is the largest, NaN is 0x7f.
static uint32_t encode8(enum Element element, float value) {
  int32_t bits = element == E4M3 ? 3 : 2, least = element == E4M3 ? -6 : -14;
  uint32_t largest = element == E4M3 ? 0x7e : 0x7b, sign = signbit(value) ? 0x80 : 0;
  double size = fabs((double)value);
  if (isnan(value))
    return 0x7f;
  int32_t exponent;
  frexp(size, &exponent);
  exponent = size == 0 || exponent - 1 < least ? least : exponent - 1;
  // In steps of the last bit; what is carried moves into the exponent.
  double steps = nearbyint(ldexp(size, bits - exponent));
  double pattern = steps + (double)((exponent - least) * (1 << bits));
  return sign | (pattern > largest ? largest : (uint32_t)pattern);
}

/// in: what becomes the upper and the lower byte.
void sim_to_float8(const uint64_t *in, uint64_t *out, int32_t element, int32_t b, int32_t c, int32_t d) {
  out[0] = encode8((enum Element)element, floatOf((uint32_t)in[0])) << 8 |
           encode8((enum Element)element, floatOf((uint32_t)in[1]));
}

void sim_from_float8(const uint64_t *in, uint64_t *out, int32_t element, int32_t b, int32_t c, int32_t d) {
  _Float16 both[2];
  for (int32_t k = 0; k < 2; ++k)
    both[k] = (_Float16)decode((enum Element)element, (uint32_t)(in[0] >> (8 * k)) & 0xff);
  memcpy(out, both, sizeof both);
}

/// Adds to neighbouring floats of global memory. in: their address, and what is added to each.
void sim_red(const uint64_t *in, uint64_t *out, int32_t count, int32_t b, int32_t c, int32_t d) {
  float *target = (float *)(uintptr_t)in[0];
  if (in[0] % (sizeof(float) * (uint64_t)count))
    simFail("red.v%d: %p, expected a multiple of the size", count, (void *)target);
  for (int32_t k = 0; k < count; ++k) {
    float added;
    memcpy(&added, &in[1 + k], sizeof added);
    target[k] += added;
  }
}
void sim_fence_proxy(const uint64_t *in, uint64_t *out, int32_t a, int32_t b, int32_t c, int32_t d) {
  pending[simThread].isUnfenced = 0;
}

//===-- wgmma ---------------------------------------------------------------------------------------------------===//

/// A matrix in shared memory: `outer` are rows of the left operand or columns of the right one.
typedef struct {
  uint64_t descriptor;
  enum Element element;
  int isTransposed; // consecutive elements are neighbours along `outer`, not along the depth
} SharedMatrix;

static uint64_t bytesAt(SharedMatrix matrix, int32_t outer, int32_t k) {
  uint64_t start = matrix.descriptor & 0x3fff, leading = matrix.descriptor >> 16 & 0x3fff;
  uint64_t stride = matrix.descriptor >> 32 & 0x3fff, mode = matrix.descriptor >> 62;
  uint64_t bytes = (uint64_t)bytesOf(matrix.element);
  // Rows of 16 bytes without a swizzle, of 128, 64 or 32 with one; eight of them are a block.
  uint64_t row = mode == 0 ? 16 : 256 >> mode;
  start <<= 4, leading <<= 4, stride <<= 4;
  uint64_t along = (uint64_t)(matrix.isTransposed ? outer : k) * bytes,
           across = (uint64_t)(matrix.isTransposed ? k : outer);
  uint64_t offset = across % 8 * row + along % row;
  if (matrix.isTransposed)
    offset += mode == 0 ? along / row * stride + across / 8 * leading : along / row * leading + across / 8 * stride;
  else
    offset += along / row * leading + across / 8 * stride;
  uint64_t address = start + offset;
  if (mode != 0) // bits 4 to 6 exclusive-or bits 7 to 9, as many as a row has
    address ^= (address >> 7 & (row / 16 - 1)) << 4;
  return address;
}

static double elementAt(SharedMatrix matrix, int32_t outer, int32_t k) {
  uint32_t bits = 0;
  memcpy(&bits, sharedStart + bytesAt(matrix, outer, k) % sharedSpace, (size_t)bytesOf(matrix.element));
  return decode(matrix.element, bits);
}

/// What an instruction reads until it is waited for.
typedef struct {
  SharedMatrix matrix;
  int32_t size, depth, group;
  uint8_t *bytes; // as they were
} Reading;

static struct {
  Reading readings[256];
  int32_t numReadings, numGroups;
  int isFenced;
} groups[maxThreads / groupSize];

/// Bytes of a row of the depth are neighbours here.
static void copyMatrix(const Reading *reading, uint8_t *bytes) {
  int32_t elementBytes = bytesOf(reading->matrix.element);
  for (int32_t outer = 0; outer < reading->size; ++outer)
    for (int32_t k = 0; k < reading->depth; ++k, bytes += elementBytes)
      memcpy(bytes, sharedStart + bytesAt(reading->matrix, outer, k) % sharedSpace, (size_t)elementBytes);
}

/// Reports an element that was written meanwhile.
static void checkReading(const Reading *reading) {
  int32_t elementBytes = bytesOf(reading->matrix.element), rowBytes = reading->depth * elementBytes;
  uint8_t *now = malloc((size_t)(reading->size * rowBytes));
  copyMatrix(reading, now);
  for (int32_t k = 0; k < reading->size * rowBytes; ++k)
    if (now[k] != reading->bytes[k]) {
      uint64_t address = bytesAt(reading->matrix, k / rowBytes, k % rowBytes / elementBytes) % sharedSpace;
      simFail("shared memory that wgmma.mma_async reads was written before wgmma.wait_group, at byte %d", (int)address);
      break;
    }
  free(now);
}

static void beginReading(SharedMatrix matrix, int32_t size, int32_t depth) {
  int32_t group = simThread / groupSize;
  if (simThread % groupSize)
    return;
  if (groups[group].numReadings == 256)
    simFail("wgmma.mma_async: more than 128 instructions that are not waited for");
  else {
    Reading *reading = &groups[group].readings[groups[group].numReadings++];
    *reading = (Reading){matrix, size, depth, groups[group].numGroups,
                         malloc((size_t)(size * depth * bytesOf(matrix.element)))};
    copyMatrix(reading, reading->bytes);
  }
}

/// m64nNk of 32 bytes of depth. in: N / 2 sums, 4 words or a descriptor of A, a descriptor of B, whether to add to the
/// sums. flags: 1 if A is in registers, 2 and 4 if A and B are transposed, 8 and 16 if they are negated.
void sim_wgmma(const uint64_t *in, uint64_t *out, int32_t numColumns, int32_t left, int32_t right, int32_t flags) {
  int32_t numSums = numColumns / 2, isInRegisters = flags & 1, depth = 32 / bytesOf((enum Element)left);
  const uint64_t *a = in + numSums, *b = a + (isInRegisters ? 4 : 1);
  SharedMatrix leftMatrix = {a[0], (enum Element)left, flags >> 1 & 1};
  SharedMatrix rightMatrix = {b[0], (enum Element)right, flags >> 2 & 1};
  uint64_t posting[5] = {a[0], isInRegisters ? a[1] : 0, isInRegisters ? a[2] : 0, isInRegisters ? a[3] : 0, b[0]};
  if (!groups[simThread / groupSize].isFenced)
    simFail("wgmma.mma_async without wgmma.fence before it");
  for (int32_t k = 0; k < simNumThreads; ++k)
    if (pending[k].isUnfenced)
      simFail("wgmma.mma_async reads what thread %d copied, without fence.proxy.async", k);
  const Posted *all = simMeet(groupSize, -1u, "wgmma.mma_async", posting, 5);
  if (all[0][4] != b[0] || (!isInRegisters && all[0][0] != a[0]))
    simFail("wgmma.mma_async: the threads of a group have different descriptors");
  double sign = (flags >> 3 & 1) == (flags >> 4 & 1) ? 1 : -1;
  const Posted *warp = all + (simThread % groupSize & ~31);
  for (int32_t i = 0; i < numSums; ++i) {
    int32_t row = simThread % groupSize / 32 * 16 + lane() / 4 + (i >> 1 & 1) * 8,
            column = i / 4 * 8 + lane() % 4 * 2 + i % 2;
    double sum = 0;
    for (int32_t k = 0; k < depth; ++k)
      sum += (isInRegisters ? leftOf(warp, (enum Element)left, row % 16, k) : elementAt(leftMatrix, row, k)) *
             elementAt(rightMatrix, column, k);
    sum *= sign;
    out[i] = addTo((enum Element)left, b[1] ? in[i] : 0, sum, isfinite(sum) ? (int64_t)sum : 0);
  }
  if (!isInRegisters)
    beginReading(leftMatrix, 64, depth);
  beginReading(rightMatrix, numColumns, depth);
}

void sim_wgmma_fence(const uint64_t *in, uint64_t *out, int32_t a, int32_t b, int32_t c, int32_t d) {
  groups[simThread / groupSize].isFenced = 1;
}

void sim_wgmma_commit(const uint64_t *in, uint64_t *out, int32_t a, int32_t b, int32_t c, int32_t d) {
  if (simThread % groupSize == 0)
    ++groups[simThread / groupSize].numGroups;
}

/// What was read until now must not have changed meanwhile.
void sim_wgmma_wait(const uint64_t *in, uint64_t *out, int32_t a, int32_t b, int32_t c, int32_t d) {
  int32_t group = simThread / groupSize, kept = 0;
  if (simThread % groupSize)
    return;
  for (int32_t k = 0; k < groups[group].numReadings; ++k) {
    Reading reading = groups[group].readings[k];
    if (reading.group >= groups[group].numGroups - (int32_t)in[0]) {
      groups[group].readings[kept++] = reading;
      continue;
    }
    checkReading(&reading);
    free(reading.bytes);
  }
  groups[group].numReadings = kept;
}

void simBeginBlock(void) {
  memset(groups, 0, sizeof groups);
  for (int32_t k = 0; k < maxThreads; ++k)
    pending[k].numCopies = pending[k].numGroups = pending[k].isUnfenced = 0;
}
