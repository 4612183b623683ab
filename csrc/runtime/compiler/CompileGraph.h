// Graph text -> loaded program: from the disk cache if it is there, else through the compiler library.
#pragma once

#include "runtime/executor/Program.h"
#include "support/Status.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace torch_tile::runtime {

struct CompileOptions {
  /// For the compiler; all of them are part of the cache key.
  std::map<std::string, std::string> compilerOptions;
  /// Threads that compile, which changes no code; 0 means as the compiler likes.
  int numThreads = 0;
  std::string cacheFolder; // empty: nothing is written
  int64_t cacheLimitBytes = 0;
  /// Read-only folders of entries, for what `cacheFolder` has not. Without any, and without a folder, there is no
  /// cache.
  std::vector<std::string> cacheLayers;
  /// Dumps need the compiler to run, so with a dump callback nothing is taken from the disk cache.
  std::function<void(const char *file, std::string_view data)> dump;
  /// A dump shows what is compiled anyway: a graph that the disk cache has is taken from there, without one.
  bool dumpOnMiss = false;
  bool forceCompile = false;
  /// Of the device, where that is another than the one kernels are compiled for ("sm_121" takes code for sm_120).
  std::string architecture;
  ProgramOptions program;
};

struct CompiledGraph {
  std::shared_ptr<const Program> program;
  bool isFromDisk = false;
  double compileMs = 0; // from text to loaded program
  /// What the disk cache holds of it once everything is written: "graphs/<name>", "kernels/<name>".
  std::vector<std::string> cacheEntries;
  /// Of the compiler, if it ran: lines of a line of the graph text (0: none) and a message.
  std::string notes;
};

/// Key of a graph in the disk cache: version of the compiler, options, text.
artifact::Hash graphKey(std::string_view text, const std::map<std::string, std::string> &compilerOptions);

/// Throws only what the dump callback and Program's constructor throw.
Status compileGraph(std::string_view text, const CompileOptions &options, CompiledGraph &result);

/// Loads an artifact that carries the code of its kernels.
Status loadArtifact(std::span<const uint8_t> bytes, ProgramOptions options, CompiledGraph &result);

} // namespace torch_tile::runtime
