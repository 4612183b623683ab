#include "runtime/package/CpuFeatures.h"

namespace torch_tile::runtime {
namespace {

struct Level {
  std::string_view name;
  std::vector<std::string> features;
};

/// The levels of the x86-64 ABI, each with those before it.
const std::vector<Level> &levels() {
  static const std::vector<Level> all = [] {
    std::vector<Level> made = {
        {"x86-64", {"sse2"}},
        {"x86-64-v2", {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"}},
        {"x86-64-v3", {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt"}},
        {"x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}},
    };
    for (size_t i = 1; i < made.size(); ++i)
      made[i].features.insert(made[i].features.begin(), made[i - 1].features.begin(), made[i - 1].features.end());
    return made;
  }();
  return all;
}

} // namespace

const char *processorArchitecture() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

std::vector<std::string> processorFeatures() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
#define FEATURE(name)                                                                                                  \
  if (__builtin_cpu_supports(name))                                                                                    \
    found.push_back(name);
  FEATURE("sse2")
  FEATURE("sse3")
  FEATURE("ssse3")
  FEATURE("sse4.1")
  FEATURE("sse4.2")
  FEATURE("popcnt")
  FEATURE("avx")
  FEATURE("avx2")
  FEATURE("bmi")
  FEATURE("bmi2")
  FEATURE("f16c")
  FEATURE("fma")
  FEATURE("lzcnt")
  FEATURE("avx512f")
  FEATURE("avx512bw")
  FEATURE("avx512cd")
  FEATURE("avx512dq")
  FEATURE("avx512vl")
  FEATURE("avx512ifma")
  FEATURE("avx512vbmi")
  FEATURE("avx512vbmi2")
  FEATURE("avx512vnni")
  FEATURE("avx512bitalg")
  FEATURE("avx512vpopcntdq")
  FEATURE("avx512bf16")
  FEATURE("avx512fp16")
  FEATURE("avx512vp2intersect")
  FEATURE("avxvnni")
  FEATURE("gfni")
  FEATURE("vaes")
  FEATURE("vpclmulqdq")
  FEATURE("fma4")
  FEATURE("xop")
#undef FEATURE
#endif
  return found;
}

bool featuresOf(std::string_view target, std::vector<std::string> &features) {
  if (target == "host") {
    features = processorFeatures();
    return true;
  }
  for (const Level &level : levels())
    if (level.name == target) {
      features = level.features;
      return true;
    }
  return false;
}

} // namespace torch_tile::runtime
