// What a compile depends on beside its text: one struct, filled once.
#pragma once

#include "compiler/codegen/cpu/CompileKernel.h"
#include "compiler/codegen/gpu/GpuOptions.h"
#include "compiler/fusion/Fusion.h"
#include "support/Status.h"

#include <optional>
#include <string_view>

namespace torch_tile {

struct CompileOptions {
  codegen::CpuOptions cpu;
  /// Kernels are for this GPU instead, if there is one.
  std::optional<codegen::GpuOptions> gpu;
  /// Off: one kernel per op, for bisection and tests.
  bool fusion = true;
  /// What one kernel may hold, so that no compile takes without end.
  fusion::FusionBudget budget;
  codegen::TimeBudget timeBudget;
  /// Keep every rounding to float16 and bfloat16 that eager makes.
  bool emulatePrecisionCasts = false;
  /// Identical bits on every run: on a GPU, too, the last of several writes of one element stays.
  bool deterministic = false;
  /// Tensors given to a standalone kernel share no memory.
  bool distinctArguments = false;
  /// By argument of a standalone kernel for GPU: what an integer, or a tensor's address, is divisible by; 1 for an
  /// integer that is 1, 0 where nothing is known. Empty: nothing is known of any.
  std::vector<int64_t> argumentMultiples;
  /// Threads of a program of a standalone kernel for GPU, if that many can hold its tiles; 0 means as its tiles need.
  int programThreads = 0;
  /// Of a standalone kernel for GPU: sums of products are rounded once, and powers of two below the smallest normal
  /// number are 0, as in Triton.
  bool fastArithmetic = true;
  /// Of a standalone kernel for GPU: loops load the operands of products this number of iterations less one ahead of
  /// their use, where shared memory has room. 1: not ahead.
  int numStages = 3;
  /// Registers of a thread of a standalone kernel for GPU, at most; 0: no limit.
  int maxRegisters = 0;
  /// For GPU: see tile_build::BuildOptions::schedules.
  std::vector<int64_t> schedules;
  /// Threads that compile kernels; 0 means as many as there are processors, at most 8.
  int numThreads = 0;
};

/// Reads "key=value" lines; blank lines are skipped, an unknown key or a bad value is an error.
///
///   target=host | <processor by LLVM's name> | sm_<n>    (default host)
///   features=<LLVM's feature list>              (default: the host's, or none for a named processor)
///   sleef=true | false                          (default true)
///   threads=<n>                                 (default 0)
///   fusion=true | false                         (default true)
///   program_threads=<n>                         (default 0)
///   num_stages=<n>                              (default 3)
///   fast_arithmetic=true | false                (default true)
///   max_registers=<n>                           (default 0)
///   body_budget=<n>                             (default 600)
///   index_budget=<n>                            (default 160)
///   kernel_budget_ms=<n>                        (default 3000)
///   distinct_arguments=true | false             (default false)
///   argument_multiples=16,0,1,...               (default none; see CompileOptions::argumentMultiples)
///   emulate_precision_casts=true | false        (default false)
///   deterministic=true | false                  (default false)
///   schedules=0,3,0,...                         (default none; see CompileOptions::schedules)
Status parseOptions(std::string_view text, CompileOptions &options);

} // namespace torch_tile
