#include "runtime/compiler/CompilerLibrary.h"

#include "runtime/link/ObjectLoader.h"

#include <c10/util/Exception.h>

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>

namespace torch_tile::runtime {
namespace {

constexpr const char *fileName = "libtorch_tile_compiler.so";

std::mutex mutex;
std::atomic<const CompilerLibrary *> opened = nullptr; // never closed: code it loaded may run until the process ends

std::string &overridePath() {
  static std::string path;
  return path;
}

/// The folder this extension was loaded from.
std::string ownFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&ownFolder), &info) || !info.dli_fname)
    return ".";
  std::string path = info.dli_fname;
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// Beside the extension, or in the distribution torch-tile-compiler, whose package stands beside this one.
std::string installedPath() {
  std::string beside = ownFolder() + "/" + fileName;
  std::string ofDistribution = ownFolder() + "/../torch_tile_compiler/" + fileName;
  return access(beside.c_str(), F_OK) == 0 || access(ofDistribution.c_str(), F_OK) != 0 ? beside : ofDistribution;
}

void *resolveSymbol(void *, const char *symbol) noexcept { return resolveInProcess(symbol); }

/// The C side of CompileRequest's callbacks.
struct Callbacks {
  const CompilerLibrary::CompileRequest &request;
  std::exception_ptr failure;

  template <typename Function> void guarded(Function function) noexcept {
    if (failure)
      return;
    try {
      function();
    } catch (...) {
      failure = std::current_exception();
    }
  }

  static void dump(void *context, const char *file, const char *data, size_t size) {
    auto *self = static_cast<Callbacks *>(context);
    self->guarded([&] { self->request.dump(file, {data, size}); });
  }

  static int lookup(void *context, const uint8_t hash[32]) {
    auto *self = static_cast<Callbacks *>(context);
    bool isFound = false;
    self->guarded([&] {
      artifact::Hash key;
      std::copy(hash, hash + sizeof(key.bytes), key.bytes);
      isFound = self->request.hasKernel(key);
    });
    return isFound;
  }
};

StatusKind toStatusKind(int32_t kind) {
  switch (kind) {
  case TTC_OK:
    return StatusKind::Ok;
  case TTC_INVALID_INPUT:
    return StatusKind::InvalidInput;
  case TTC_UNSUPPORTED:
    return StatusKind::Unsupported;
  case TTC_OUT_OF_RESOURCES:
    return StatusKind::OutOfResources;
  default:
    return StatusKind::Internal;
  }
}

} // namespace

void CompilerLibrary::setPath(std::string path) {
  std::lock_guard lock(mutex);
  overridePath() = std::move(path);
}

bool CompilerLibrary::isOpen() { return opened.load(std::memory_order_acquire) != nullptr; }

const CompilerLibrary &CompilerLibrary::get() {
  if (const CompilerLibrary *library = opened.load(std::memory_order_acquire))
    return *library;
  static std::once_flag once;
  std::call_once(once, [] {
    // A fork waits until the library is open: the child would find it half opened, and the lock taken.
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
  });
  std::lock_guard lock(mutex);
  if (!opened.load()) {
    opened.store(new CompilerLibrary(overridePath().empty() ? installedPath() : overridePath()),
                 std::memory_order_release);
  }
  return *opened.load();
}

CompilerLibrary::CompilerLibrary(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(library, "cannot open torch-tile's compiler library: ", dlerror(),
              "; install torch-tile-compiler of the same version, or build the target torch_tile_compiler");
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    TORCH_CHECK(function, path, " has no function ", name, ": it belongs to another version of torch-tile");
  };
  find(functions.version, "ttc_version");
  find(functions.hash, "ttc_hash");
  find(functions.compile, "ttc_compile");
  // Kernels that stand for themselves are no part of compiling graphs: a library without them serves those.
  functions.compileKernel = reinterpret_cast<decltype(functions.compileKernel)>(dlsym(library, "ttc_compile_kernel"));
  functions.importTriton = reinterpret_cast<decltype(functions.importTriton)>(dlsym(library, "ttc_import_triton"));
  functions.describeProcessor =
      reinterpret_cast<decltype(functions.describeProcessor)>(dlsym(library, "ttc_describe_processor"));
  functions.injectFault = reinterpret_cast<decltype(functions.injectFault)>(dlsym(library, "ttc_inject_fault"));
  find(functions.load, "ttc_load");
  find(functions.unload, "ttc_unload");
  find(functions.bufferFree, "ttc_buffer_free");
  find(functions.statusFree, "ttc_status_free");
  versionText = functions.version();
}

std::string CompilerLibrary::describeProcessor(const std::string &name) const {
  if (!functions.describeProcessor)
    return "";
  ttc_buffer buffer = functions.describeProcessor(name.c_str());
  std::string text(buffer.data ? buffer.data : "", buffer.size);
  functions.bufferFree(&buffer);
  return text;
}

artifact::Hash CompilerLibrary::hash(std::span<const uint8_t> bytes) const {
  artifact::Hash result;
  functions.hash(bytes.data(), bytes.size(), result.bytes);
  return result;
}

Status CompilerLibrary::take(ttc_status &status) const {
  auto text = [](const ttc_buffer &buffer) {
    return buffer.data ? std::string(buffer.data, buffer.size) : std::string();
  };
  Status result{toStatusKind(status.kind), text(status.stage), text(status.text), status.line};
  functions.statusFree(&status);
  return result;
}

Status CompilerLibrary::compile(const CompileRequest &request, std::vector<uint8_t> &artifactBytes) const {
  return compileWith(functions.compile, request, artifactBytes);
}

Status CompilerLibrary::compileKernel(const CompileRequest &request, std::vector<uint8_t> &kernelBytes) const {
  return compileWith(functions.compileKernel, request, kernelBytes);
}

Status CompilerLibrary::importTriton(std::string_view text, bool isEmbeddable, bool pointersFirst,
                                     std::string &tile) const {
  ttc_buffer buffer{};
  ttc_status status = functions.importTriton(text.data(), text.size(), isEmbeddable, pointersFirst, &buffer);
  tile.assign(buffer.data ? buffer.data : "", buffer.size);
  functions.bufferFree(&buffer);
  return take(status);
}

Status CompilerLibrary::compileWith(decltype(&ttc_compile) compile, const CompileRequest &request,
                                    std::vector<uint8_t> &artifactBytes) const {
  Callbacks callbacks{request, nullptr};
  ttc_compile_request raw{};
  raw.options = request.options.data();
  raw.options_size = request.options.size();
  if (request.dump) {
    raw.dump = &Callbacks::dump;
    raw.dump_context = &callbacks;
  }
  if (request.hasKernel) {
    raw.lookup_kernel = &Callbacks::lookup;
    raw.lookup_context = &callbacks;
  }
  ttc_buffer bytes{};
  ttc_status status = compile(request.text.data(), request.text.size(), &raw, &bytes);
  artifactBytes.assign(bytes.data, bytes.data + bytes.size);
  functions.bufferFree(&bytes);
  Status result = take(status);
  if (callbacks.failure)
    std::rethrow_exception(callbacks.failure);
  return result;
}

Status CompilerLibrary::load(std::span<const uint8_t> object, const std::string &symbol, void *&function,
                             void *&handle) const {
  function = handle = nullptr;
  ttc_status status =
      functions.load(object.data(), object.size(), symbol.c_str(), &resolveSymbol, nullptr, &function, &handle);
  return take(status);
}

} // namespace torch_tile::runtime
