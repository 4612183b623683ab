// Named stages of one compile: what each produced, for dumps, and how long it took.
#pragma once

#include "artifact/Artifact.h"

#include "mlir/IR/Operation.h"

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace torch_tile {

/// What the caller of a compile wants to know or knows already. Called on the calling thread.
struct CompileHooks {
  /// File name of a dump and its text; null when no dumps are wanted.
  std::function<void(const char *file, std::string_view text)> dump;
  /// Whether the code of a kernel is at hand; null when none is.
  std::function<bool(const artifact::Hash &hash)> lookupKernel;
};

class Stages {
public:
  explicit Stages(const CompileHooks &hooks) : hooks(hooks), start(Clock::now()), last(start) {}

  bool hasDumps() const { return static_cast<bool>(hooks.dump); }
  /// Ends the stage `name`: its time is what went by since the one before.
  void done(const char *name);
  void dump(const char *file, std::string_view text);
  void dump(const char *file, mlir::Operation *op);
  /// Time spent on one kernel, by step; `begin` is when it began.
  void addKernel(std::string name, std::chrono::steady_clock::time_point begin,
                 std::vector<std::pair<std::string, double>> stepsMs);
  /// "timing.json".
  std::string timing() const;

private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string name;
    double beginMs; // since the start of the compile
    std::vector<std::pair<std::string, double>> stepsMs;
  };
  const CompileHooks &hooks;
  Clock::time_point start, last;
  std::vector<std::pair<std::string, double>> stagesMs;
  std::vector<Entry> kernels;
};

} // namespace torch_tile
