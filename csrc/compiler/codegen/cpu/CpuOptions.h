// What code generation for CPU depends on: everything here is part of a kernel's hash.
#pragma once

#include <string>

namespace torch_tile::codegen {

/// The processor that kernels are compiled for.
struct CpuOptions {
  std::string cpu;      // LLVM's name, "znver4"
  std::string features; // LLVM's list, "+avx2,-avx512f"; may be empty for what `cpu` implies
  /// The Sleef functions of libtorch_cpu may be called.
  bool hasSleef = true;

  bool operator==(const CpuOptions &) const = default;

  /// The host, or a processor by LLVM's name ("x86-64-v3").
  static CpuOptions host();
  static CpuOptions named(const std::string &cpu);
};

/// What lowering asks about a processor.
struct CpuFeatures {
  bool hasAvx512 = false;
  bool hasBf16Conversion = false;
  /// Masked loads and stores of 4 and 8 bytes (AVX and later), of 1 and 2 bytes (AVX512BW).
  bool hasMaskedWords = false;
  bool hasMaskedBytes = false;
  bool hasGather = false;
  /// A gather instruction takes less time than loads one by one.
  bool hasFastGather = false;
  bool hasScatter = false;
  /// An instruction for the maximum that passes NaN on.
  bool hasMaximum = false;
  int vectorBits = 128;
};

} // namespace torch_tile::codegen
