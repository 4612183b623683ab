#include "runtime/compiler/CompileGraph.h"

#include "artifact/Serialize.h"
#include "runtime/cache/DiskCache.h"
#include "runtime/cache/StoreQueue.h"
#include "runtime/compiler/CompilerLibrary.h"
#include "runtime/compiler/KernelTable.h"
#include "runtime/launch/gpu/Assemble.h"
#include "support/FaultPoint.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>

namespace torch_tile::runtime {

using artifact::Artifact;
using artifact::Hash;
using artifact::Kernel;

namespace {

using Clock = std::chrono::steady_clock;
using Kernels = std::vector<std::shared_ptr<const LoadedKernel>>;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

bool callsPython(const Artifact &artifact) {
  bool found = false;
  artifact.forEachBody([&](const artifact::Body &body) {
    for (const artifact::Step &step : body.steps)
      found |= std::holds_alternative<artifact::PyCall>(step.action);
  });
  return found;
}

std::string optionLines(const std::map<std::string, std::string> &options) {
  std::string lines;
  for (const auto &[key, value] : options)
    lines += key + "=" + value + "\n";
  return lines;
}

/// Where kernels come from. What it has answered for is held, so that an answer once given stays true.
class KernelSource {
public:
  explicit KernelSource(DiskCache *cache) : cache(cache) {}

  /// Whether the compiler may leave out the code of this kernel.
  bool has(const Hash &hash) {
    if (std::shared_ptr<const LoadedKernel> kernel = findLoadedKernel(hash)) {
      held.push_back(std::move(kernel));
      // Loaded but not stored: the code is wanted for the disk.
      return !cache || cache->contains(EntryKind::Kernel, hash);
    }
    std::vector<uint8_t> code;
    if (!cache || !cache->read(EntryKind::Kernel, hash, code))
      return false;
    codes.emplace_back(hash, std::move(code));
    return true;
  }

  /// Takes the kernel from the process, the code at hand, or the disk, in this order.
  Status load(const Kernel &kernel, std::shared_ptr<const LoadedKernel> &loaded) {
    loaded = findLoadedKernel(kernel.hash);
    if (loaded)
      return Status::ok();
    if (!kernel.code.empty())
      return loadKernel(kernel, kernel.code, loaded);
    for (const auto &[hash, code] : codes)
      if (hash == kernel.hash)
        return loadKernel(kernel, code, loaded);
    std::vector<uint8_t> code;
    if (!cache || !cache->read(EntryKind::Kernel, kernel.hash, code))
      return Status::internal("load", "the code of kernel '" + kernel.name + "' is neither loaded nor stored");
    return loadKernel(kernel, code, loaded);
  }

  /// Whether the compiler left out code because the disk has it.
  bool usesDisk() const { return !codes.empty(); }

private:
  DiskCache *cache;
  std::vector<std::shared_ptr<const LoadedKernel>> held;
  std::vector<std::pair<Hash, std::vector<uint8_t>>> codes;
};

Status loadAll(const Artifact &artifact, KernelSource &source, Kernels &kernels) {
  for (const Kernel &kernel : artifact.kernels)
    if (Status status = source.load(kernel, kernels.emplace_back()); !status.isOk())
      return status;
  return Status::ok();
}

/// True if the graph and all its kernels were there and sound.
bool loadFromDisk(DiskCache &cache, const Hash &key, Artifact &artifact, Kernels &kernels) {
  std::vector<uint8_t> bytes;
  if (!cache.read(EntryKind::Graph, key, bytes))
    return false;
  if (!artifact::deserialize(bytes, artifact).isOk()) {
    cache.remove(EntryKind::Graph, key);
    return false;
  }
  KernelSource source(&cache);
  if (loadAll(artifact, source, kernels).isOk())
    return true;
  kernels.clear();
  return false;
}

std::vector<std::string> entriesOf(const Hash &key, const Artifact &artifact) {
  std::vector<std::string> names;
  auto add = [&](EntryKind kind, const Hash &hash) {
    names.push_back(std::string(folderName(kind)) + "/" + entryName(hash));
  };
  add(EntryKind::Graph, key);
  for (const Kernel &kernel : artifact.kernels)
    add(EntryKind::Kernel, kernel.hash);
  return names;
}

/// Hands the artifact to the background thread and comes back at once. `replace` writes what is there already again.
void writeToDisk(std::shared_ptr<DiskCache> cache, const Hash &key, Artifact artifact, bool replace) {
  std::vector<std::string> names = {cache->storeName(EntryKind::Graph, key)};
  for (const Kernel &kernel : artifact.kernels)
    if (!kernel.code.empty())
      names.push_back(cache->storeName(EntryKind::Kernel, kernel.hash));
  auto job = [cache = std::move(cache), key, artifact = std::move(artifact), replace]() mutable {
    for (Kernel &kernel : artifact.kernels) {
      if (!kernel.code.empty() && !cache->write(EntryKind::Kernel, kernel.hash, kernel.code, replace))
        return; // a graph without its kernels would only cost the next reader time
      kernel.code = {};
    }
    cache->write(EntryKind::Graph, key, artifact::serialize(artifact), replace);
  };
  postStore(std::move(names), std::move(job));
}

std::string assembleContained(Kernel &kernel, const std::string &architecture) noexcept {
  try {
    return assemble(kernel.code, architecture.empty() ? kernel.target : architecture);
  } catch (const std::exception &) {
    return "no memory"; // fits a string without any of its own
  }
}

/// PTX to cubins, kernels in parallel: an assembler takes several times as long as the compiler.
Status assembleAll(Artifact &artifact, const std::string &architecture) {
  std::vector<Kernel *> kernels;
  for (Kernel &kernel : artifact.kernels)
    if (kernel.target != "cpu" && isPtx(kernel.code))
      kernels.push_back(&kernel);
  std::vector<std::string> errors(kernels.size());
  std::atomic<size_t> next = 0;
  auto work = [&]() noexcept {
    for (size_t i; (i = next++) < kernels.size();)
      errors[i] = assembleContained(*kernels[i], architecture);
  };
  std::vector<std::thread> threads;
  size_t numThreads = std::min<size_t>({kernels.size(), 16, std::thread::hardware_concurrency()});
  threads.reserve(numThreads);
  try {
    for (size_t i = 1; i < numThreads; ++i)
      threads.emplace_back(work);
  } catch (const std::system_error &) {
    // Where no more threads are to be had, those that run do the work.
  }
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < kernels.size(); ++i)
    if (!errors[i].empty())
      return Status::internal("assemble", "kernel '" + kernels[i]->name + "': " + errors[i]);
  return Status::ok();
}

Status compile(std::string_view text, const std::string &optionText, const CompileOptions &options,
               KernelSource &source, Artifact &artifact, Kernels &kernels, std::string &notes) {
  std::string allOptions = optionText;
  if (options.numThreads > 0)
    allOptions += "threads=" + std::to_string(options.numThreads) + "\n";
  CompilerLibrary::CompileRequest request{text, allOptions, options.dump, {}};
  // A dump shows the code of every kernel, so the compiler must make it.
  if (!options.dump && !options.forceCompile)
    request.hasKernel = [&](const Hash &hash) { return source.has(hash); };
  std::vector<uint8_t> bytes;
  Status compiled = CompilerLibrary::get().compile(request, bytes);
  if (!compiled.isOk())
    return compiled;
  notes = std::move(compiled.text);
  if (Status status = artifact::deserialize(bytes, artifact); !status.isOk())
    return status;
  if (options.dump)
    options.dump("55-program.txt", artifact::print(artifact));
  if (Status status = assembleAll(artifact, options.architecture); !status.isOk())
    return status;
  if (Status status = loadAll(artifact, source, kernels); !status.isOk())
    return status;
  // Of a kernel that it did not compile, the compiler cannot say it.
  for (size_t i = 0; i < kernels.size(); ++i)
    if (const GpuKernel *gpu = kernels[i]->gpu.get())
      artifact.kernels[i].sharedBytes = gpu->sharedBytes();
  return Status::ok();
}

} // namespace

/// The sizes keep the parts apart: no two inputs give the same bytes.
Hash graphKey(std::string_view text, const std::map<std::string, std::string> &compilerOptions) {
  const CompilerLibrary &compiler = CompilerLibrary::get();
  const std::string options = optionLines(compilerOptions);
  std::string bytes;
  for (std::string_view part : {std::string_view(compiler.version()), std::string_view(options), text}) {
    bytes += std::to_string(part.size()) + "\n";
    bytes += part;
  }
  return compiler.hash({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
}

Status compileGraph(std::string_view text, const CompileOptions &options, CompiledGraph &result) {
  Clock::time_point start = Clock::now();
  std::string optionText = optionLines(options.compilerOptions);
  std::shared_ptr<DiskCache> cache;
  Hash key;
  if (!options.cacheFolder.empty() || !options.cacheLayers.empty()) {
    cache = std::make_shared<DiskCache>(options.cacheFolder, options.cacheLimitBytes, options.cacheLayers);
    key = graphKey(text, options.compilerOptions);
  }

  Artifact artifact;
  Kernels kernels;
  result.isFromDisk = cache && (!options.dump || options.dumpOnMiss) && !options.forceCompile &&
                      loadFromDisk(*cache, key, artifact, kernels);
  if (!result.isFromDisk) {
    KernelSource source(cache.get());
    Status status = compile(text, optionText, options, source, artifact, kernels, result.notes);
    bool isUseless = !status.isOk() && source.usesDisk();
    if (isUseless) {
      // Stored code that is whole and does not load: all of it is made anew.
      KernelSource nothing(nullptr);
      artifact = {};
      kernels.clear();
      status = compile(text, optionText, options, nothing, artifact, kernels, result.notes);
    }
    if (!status.isOk())
      return status;
    if (!options.cacheFolder.empty() && !callsPython(artifact)) {
      try {
        writeToDisk(cache, key, artifact, options.forceCompile || isUseless);
      } catch (const std::bad_alloc &) { // the program is there, and may need what memory is left
      }
    }
  }
  if (cache && !callsPython(artifact))
    result.cacheEntries = entriesOf(key, artifact);
  FaultPoints::reach("program");
  result.program = std::make_shared<const Program>(std::move(artifact), std::move(kernels), options.program);
  result.compileMs = millisecondsSince(start);
  return Status::ok();
}

Status loadArtifact(std::span<const uint8_t> bytes, ProgramOptions options, CompiledGraph &result) {
  Clock::time_point start = Clock::now();
  Artifact artifact;
  if (Status status = artifact::deserialize(bytes, artifact); !status.isOk())
    return status;
  Kernels kernels;
  KernelSource source(nullptr);
  if (Status status = loadAll(artifact, source, kernels); !status.isOk())
    return status;
  result.program = std::make_shared<const Program>(std::move(artifact), std::move(kernels), options);
  result.compileMs = millisecondsSince(start);
  return Status::ok();
}

} // namespace torch_tile::runtime
