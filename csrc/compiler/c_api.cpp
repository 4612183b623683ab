#include "compiler/c_api.h"

#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/driver/Compile.h"
#include "compiler/driver/Guard.h"
#include "compiler/driver/WorkerPool.h"
#include "compiler/loader/Loader.h"
#include "support/FaultPoint.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

using namespace torch_tile;

static ttc_buffer makeBuffer(const void *data, size_t size) {
  ttc_buffer buffer{nullptr, 0};
  if (size == 0)
    return buffer;
  buffer.data = static_cast<char *>(std::malloc(size + 1));
  if (!buffer.data)
    return buffer;
  std::memcpy(buffer.data, data, size);
  buffer.data[size] = 0; // handy for texts, no part of the size
  buffer.size = size;
  return buffer;
}

static ttc_status makeStatus(const Status &status) {
  static_assert(int(StatusKind::Ok) == TTC_OK && int(StatusKind::InvalidInput) == TTC_INVALID_INPUT &&
                int(StatusKind::Unsupported) == TTC_UNSUPPORTED && int(StatusKind::Internal) == TTC_INTERNAL &&
                int(StatusKind::OutOfResources) == TTC_OUT_OF_RESOURCES);
  return {int32_t(status.kind), status.line, makeBuffer(status.stage.data(), status.stage.size()),
          makeBuffer(status.text.data(), status.text.size())};
}

const char *ttc_version(void) {
  static const std::string version = describeVersion();
  return version.c_str();
}

ttc_buffer ttc_describe_processor(const char *name) {
  codegen::Processor processor = codegen::describeProcessor(name);
  std::string text = llvm::join(processor.known, ",") + "\n" + llvm::join(processor.missing, ",");
  return makeBuffer(text.data(), text.size());
}

void ttc_hash(const void *data, size_t size, uint8_t hash[32]) {
  llvm::BLAKE3 hasher;
  hasher.update(llvm::ArrayRef(static_cast<const uint8_t *>(data), size));
  auto digest = hasher.final<32>();
  std::memcpy(hash, digest.data(), 32);
}

/// Runs a step of the compiler where nothing that happens in it ends the process.
static Status contain(const char *stage, const std::function<Status()> &step) {
  auto status = std::make_unique<Status>();
  std::string end = runContained([&] { *status = step(); });
  if (end.empty())
    return std::move(*status);
  (void)status.release(); // it may be in any state
  return Status::internal(stage, end);
}

static ttc_status makeStatus(const Status &status, const std::vector<uint8_t> &bytes, ttc_buffer *result) {
  if (!status.isOk())
    return makeStatus(status);
  *result = makeBuffer(bytes.data(), bytes.size());
  if (!result->data && !bytes.empty())
    return makeStatus(Status::internal("compile", "out of memory"));
  return makeStatus(status);
}

using CompileFn = Status (*)(std::string_view, const CompileOptions &, const CompileHooks &, std::vector<uint8_t> &);

static ttc_status compileWith(CompileFn compile, const char *text, size_t size, const ttc_compile_request *request,
                              ttc_buffer *artifact) {
  *artifact = {nullptr, 0};
  CompileHooks hooks;
  if (request->dump)
    hooks.dump = [&](const char *file, std::string_view data) {
      request->dump(request->dump_context, file, data.data(), data.size());
    };
  if (request->lookup_kernel)
    hooks.lookupKernel = [&](const artifact::Hash &hash) {
      return request->lookup_kernel(request->lookup_context, hash.bytes) == 1;
    };
  std::vector<uint8_t> bytes;
  Status status = contain("compile", [&] {
    CompileOptions options;
    Status parsed = parseOptions({request->options, request->options_size}, options);
    return parsed.isOk() ? compile({text, size}, options, hooks, bytes) : parsed;
  });
  return makeStatus(status, bytes, artifact);
}

ttc_status ttc_compile(const char *text, size_t size, const ttc_compile_request *request, ttc_buffer *artifact) {
  return compileWith(&compileGraph, text, size, request, artifact);
}

ttc_status ttc_compile_kernel(const char *text, size_t size, const ttc_compile_request *request, ttc_buffer *kernel) {
  return compileWith(&compileStandaloneKernel, text, size, request, kernel);
}

ttc_status ttc_import_triton(const char *text, size_t size, int embeddable, int pointers_first, ttc_buffer *tile) {
  *tile = {nullptr, 0};
  std::string result;
  Status status = contain("import", [&] {
    FaultPoints::reach("triton");
    return importTriton({text, size}, embeddable != 0, pointers_first != 0, result);
  });
  if (status.isOk())
    *tile = makeBuffer(result.data(), result.size());
  return makeStatus(status);
}

ttc_status ttc_load(const void *object, size_t size, const char *symbol, ttc_resolve_fn resolve, void *context,
                    void **function, void **handle) {
  *function = *handle = nullptr;
  ResolveFn resolver;
  if (resolve)
    resolver = [&](const char *name) { return resolve(context, name); };
  std::unique_ptr<LoadedCode> code;
  bool isComplete = false;
  Status status = contain("load", [&] {
    Status loaded = loadObject({static_cast<const uint8_t *>(object), size}, symbol, resolver, code);
    isComplete = true;
    return loaded;
  });
  if (!isComplete)
    abandonLoader();
  if (status.isOk()) {
    *function = code->function;
    *handle = code.release();
  }
  return makeStatus(status);
}

int ttc_inject_fault(const char *fault) { return FaultPoints::arm(fault, &raiseFault); }

void ttc_unload(void *handle) { delete static_cast<LoadedCode *>(handle); }

void ttc_buffer_free(ttc_buffer *buffer) {
  std::free(buffer->data);
  *buffer = {nullptr, 0};
}

void ttc_status_free(ttc_status *status) {
  ttc_buffer_free(&status->stage);
  ttc_buffer_free(&status->text);
}
