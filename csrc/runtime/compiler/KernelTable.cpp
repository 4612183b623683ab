#include "runtime/compiler/KernelTable.h"

#include "artifact/LaunchNote.h"
#include "runtime/compiler/CompilerLibrary.h"
#include "runtime/compiler/PerfMap.h"
#include "support/FaultPoint.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace torch_tile::runtime {
namespace {

struct HashOfHash {
  size_t operator()(const artifact::Hash &hash) const {
    size_t value;
    std::memcpy(&value, hash.bytes, sizeof(value));
    return value;
  }
};

struct Table {
  std::mutex mutex;
  std::unordered_map<artifact::Hash, std::weak_ptr<const LoadedKernel>, HashOfHash> kernels;
};

Table &table() {
  // Never destroyed: programs may outlive static destructors.
  static Table *instance = [] {
    // A child must not inherit the lock of a thread that it does not have.
    pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); }, [] { table().mutex.unlock(); });
    return new Table;
  }();
  return *instance;
}

} // namespace

LoadedKernel::~LoadedKernel() {
  if (handle)
    CompilerLibrary::get().unload(handle);
}

std::shared_ptr<const LoadedKernel> findLoadedKernel(const artifact::Hash &hash) {
  Table &t = table();
  std::lock_guard lock(t.mutex);
  auto it = t.kernels.find(hash);
  return it == t.kernels.end() ? nullptr : it->second.lock();
}

static Status link(const artifact::Kernel &described, std::span<const uint8_t> code,
                   std::shared_ptr<const LoadedKernel> &loaded) {
  if (described.target != "cpu") {
    if (described.numThreads == 0 || described.programsPerBlock == 0)
      return Status::invalidInput("load", "kernel '" + described.name + "' does not say how many threads it takes");
    uint32_t sharedBytes = std::max(described.sharedBytes, artifact::sharedBytesOf(code));
    loaded = std::make_shared<const LoadedKernel>(
        std::make_unique<GpuKernel>(code, described.symbol, described.numThreads, described.programsPerBlock,
                                    sharedBytes, described.alignedArguments));
    return Status::ok();
  }
  // Opening the compiler library takes longer than all else that a packaged model needs.
  if (!CompilerLibrary::isOpen() && canLoadObjects()) {
    std::shared_ptr<const LoadedObject> object;
    Status status = loadObject(code, described.symbol, &resolveInProcess, object);
    if (status.isOk()) {
      addToPerfMap(reinterpret_cast<const void *>(object->function), described.symbol, described.name, code);
      loaded = std::make_shared<const LoadedKernel>(std::move(object));
      return status;
    }
    // The compiler library may know what this loader does not. Where there is none, the first reason counts.
    try {
      CompilerLibrary::get();
    } catch (const c10::Error &) {
      return status;
    }
  }
  void *function = nullptr, *handle = nullptr;
  Status status = CompilerLibrary::get().load(code, described.symbol, function, handle);
  if (!status.isOk())
    return status;
  addToPerfMap(function, described.symbol, described.name, code);
  loaded = std::make_shared<const LoadedKernel>(reinterpret_cast<KernelFn>(function), handle);
  return status;
}

Status loadKernel(const artifact::Kernel &described, std::span<const uint8_t> code,
                  std::shared_ptr<const LoadedKernel> &kernel) {
  const artifact::Hash &hash = described.hash;
  kernel = findLoadedKernel(hash);
  if (kernel)
    return Status::ok();
  FaultPoints::reach("load");
  std::shared_ptr<const LoadedKernel> loaded;
  if (Status status = link(described, code, loaded); !status.isOk())
    return status;
  Table &t = table();
  // `loaded` is declared before the lock: if another thread was quicker, it is unloaded after the lock is gone.
  std::lock_guard lock(t.mutex);
  std::weak_ptr<const LoadedKernel> &entry = t.kernels[hash];
  kernel = entry.lock();
  if (!kernel) {
    entry = loaded;
    kernel = loaded;
  }
  if (t.kernels.size() > 1024)
    std::erase_if(t.kernels, [](const auto &item) { return item.second.expired(); });
  return Status::ok();
}

} // namespace torch_tile::runtime
