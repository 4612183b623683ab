// What code generation for GPU depends on: everything here is part of a kernel's hash.
#pragma once

#include <optional>
#include <string>

namespace torch_tile::codegen {

/// The GPU that kernels are compiled for; see Targets.def.
struct GpuOptions {
  std::string architecture; // "sm_90"
  std::string features;     // "+ptx80"
  int64_t sharedBytes = 0;  // of a multiprocessor

  /// Of the shared memory, what one block may have; beyond 48 KB the launch has to ask for it.
  int64_t blockSharedBytes() const { return sharedBytes - 1024; }

  /// Whether there are matrix instructions of four warps (wgmma), which this generation alone has.
  bool hasWarpGroups() const { return architecture == "sm_90a"; }

  /// Whether there are instructions of 8-bit floats: products and conversions.
  bool hasFloat8() const { return architecture != "sm_80" && architecture != "sm_86" && architecture != "sm_87"; }

  /// Whether one instruction updates up to four neighbouring floats atomically.
  bool hasVectorAtomics() const { return hasFloat8() && architecture != "sm_89"; }

  bool operator==(const GpuOptions &) const = default;

  /// Nothing if Targets.def has no such architecture.
  static std::optional<GpuOptions> named(const std::string &architecture);
  /// All that Targets.def has, for messages: "sm_80, sm_86".
  static std::string knownNames();
};

} // namespace torch_tile::codegen
