// How the processor treats subnormal numbers, per thread: pool threads take over the setting of the thread that
// launches.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace torch_tile::runtime {

class FloatEnvironment {
public:
  static FloatEnvironment current() {
    FloatEnvironment environment;
#if defined(__x86_64__)
    environment.bits = _mm_getcsr() & modeMask;
#elif defined(__aarch64__)
    uint64_t fpcr;
    asm volatile("mrs %0, fpcr" : "=r"(fpcr));
    environment.bits = fpcr & modeMask;
#endif
    return environment;
  }

  bool operator==(const FloatEnvironment &) const = default;

  void apply() const {
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~static_cast<uint32_t>(modeMask)) | static_cast<uint32_t>(bits));
#elif defined(__aarch64__)
    uint64_t fpcr;
    asm volatile("mrs %0, fpcr" : "=r"(fpcr));
    fpcr = (fpcr & ~modeMask) | bits;
    asm volatile("msr fpcr, %0" ::"r"(fpcr));
#endif
  }

private:
#if defined(__x86_64__)
  static constexpr uint64_t modeMask = 0x8040; // flush-to-zero, denormals-are-zero
#else
  static constexpr uint64_t modeMask = uint64_t(1) << 24; // FPCR.FZ
#endif
  uint64_t bits = 0;
};

/// Applies an environment for a scope. Free when the thread has it already.
class FloatEnvironmentGuard {
public:
  explicit FloatEnvironmentGuard(FloatEnvironment wanted)
      : saved(FloatEnvironment::current()), isChanged(!(saved == wanted)) {
    if (isChanged)
      wanted.apply();
  }
  ~FloatEnvironmentGuard() {
    if (isChanged)
      saved.apply();
  }
  FloatEnvironmentGuard(const FloatEnvironmentGuard &) = delete;
  FloatEnvironmentGuard &operator=(const FloatEnvironmentGuard &) = delete;

private:
  FloatEnvironment saved;
  bool isChanged;
};

} // namespace torch_tile::runtime
