#include "artifact/Crc32.h"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace torch_tile;

namespace {

constexpr size_t numTables = 8;

/// tables[k][b]: the register after byte b and k bytes of zeros.
constexpr std::array<std::array<uint32_t, 256>, numTables> tables = [] {
  std::array<std::array<uint32_t, 256>, numTables> made{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = value & 1 ? 0xedb88320u ^ (value >> 1) : value >> 1;
    made[0][i] = value;
  }
  for (size_t k = 1; k < numTables; ++k)
    for (uint32_t i = 0; i < 256; ++i)
      made[k][i] = (made[k - 1][i] >> 8) ^ made[0][made[k - 1][i] & 0xff];
  return made;
}();

uint32_t extend(uint32_t crc, std::span<const uint8_t> bytes) {
  while (bytes.size() >= numTables) {
    uint32_t low = crc ^ (bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<uint32_t>(bytes[3]) << 24);
    crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^ tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24] ^
          tables[3][bytes[4]] ^ tables[2][bytes[5]] ^ tables[1][bytes[6]] ^ tables[0][bytes[7]];
    bytes = bytes.subspan(numTables);
  }
  for (uint8_t byte : bytes)
    crc = tables[0][(crc ^ byte) & 0xff] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)

#define CARRYLESS __attribute__((target("pclmul,sse4.1")))

CARRYLESS __m128i load(const uint8_t *from) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from)); }

/// `folded` moved on by the distance that `powers` stand for, plus `next`.
CARRYLESS __m128i fold(__m128i folded, __m128i powers, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(folded, powers, 0x00), high = _mm_clmulepi64_si128(folded, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/// Folds by carry-less products, then reduces (Gopal et al., Fast CRC Computation for Generic Polynomials Using
/// PCLMULQDQ Instruction, Intel 2009). The powers of x are those of the paper for the polynomial of zlib, reflected.
/// `bytes` are at least 64, in whole blocks of 16.
CARRYLESS uint32_t extendCarryless(uint32_t crc, std::span<const uint8_t> bytes) {
  const __m128i by64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4), by16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  const __m128i by4 = _mm_set_epi64x(0, 0x0163cd6124), barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  const uint8_t *at = bytes.data(), *end = at + bytes.size();
  __m128i a = _mm_xor_si128(load(at), _mm_cvtsi32_si128(static_cast<int>(crc)));
  __m128i b = load(at + 16), c = load(at + 32), d = load(at + 48);
  for (at += 64; end - at >= 64; at += 64) {
    a = fold(a, by64, load(at));
    b = fold(b, by64, load(at + 16));
    c = fold(c, by64, load(at + 32));
    d = fold(d, by64, load(at + 48));
  }
  a = fold(fold(fold(a, by16, b), by16, c), by16, d);
  for (; end - at >= 16; at += 16)
    a = fold(a, by16, load(at));

  const __m128i words = _mm_setr_epi32(-1, 0, -1, 0);
  a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by16, 0x10));
  a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, words), by4, 0x00), _mm_srli_si128(a, 4));
  __m128i quotient = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(a, words), barrett, 0x10), words);
  a = _mm_xor_si128(a, _mm_clmulepi64_si128(quotient, barrett, 0x00));
  return static_cast<uint32_t>(_mm_extract_epi32(a, 1));
}

bool multipliesCarryless() {
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  }();
  return has;
}

#endif

} // namespace

uint32_t artifact::portableCrc32(std::span<const uint8_t> bytes) { return ~extend(~0u, bytes); }

uint32_t artifact::crc32(std::span<const uint8_t> bytes) {
  uint32_t crc = ~0u;
#if defined(__x86_64__)
  if (bytes.size() >= 64 && multipliesCarryless()) {
    size_t whole = bytes.size() / 16 * 16;
    crc = extendCarryless(crc, bytes.first(whole));
    bytes = bytes.subspan(whole);
  }
#endif
  return ~extend(crc, bytes);
}
