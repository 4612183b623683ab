// A stand-in for libtorch_tile_compiler: the text it compiles is an artifact in hexadecimal, objects are shared
// libraries. It lets runtime tests run without LLVM and see exactly what the runtime asks for.
#include "artifact/Serialize.h"
#include "compiler/c_api.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

using namespace torch_tile;

namespace {

ttc_buffer toBuffer(const void *data, size_t size) {
  char *copy = static_cast<char *>(std::malloc(size + 1));
  std::memcpy(copy, data, size);
  return {copy, size};
}

ttc_status fail(ttc_status_kind kind, const std::string &text, int line) {
  return {kind, line, toBuffer("fake", 4), toBuffer(text.data(), text.size())};
}

int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

} // namespace

extern "C" {

TTC_API const char *ttc_version(void) {
  const char *version = std::getenv("FAKE_COMPILER_VERSION");
  return version ? version : "fake 1";
}

TTC_API void ttc_hash(const void *data, size_t size, uint8_t hash[32]) {
  uint64_t lanes[4] = {1, 2, 3, 4};
  for (size_t i = 0; i < size; ++i)
    for (uint64_t &lane : lanes)
      lane = (lane ^ static_cast<const uint8_t *>(data)[i]) * 0x100000001b3 + (lane >> 29);
  std::memcpy(hash, lanes, 32);
}

TTC_API ttc_status ttc_compile(const char *text, size_t size, const ttc_compile_request *request, ttc_buffer *out) {
  std::string input(text, size);
  if (input == "unsupported")
    return fail(TTC_UNSUPPORTED, "'graph.foo' op is not supported", 7);
  if (input == "invalid")
    return fail(TTC_INVALID_INPUT, "expected ')'", 3);
  if (input == "internal")
    return fail(TTC_INTERNAL, "verification failed", 0);
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < input.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(digit(input[i]) * 16 + digit(input[i + 1])));
  artifact::Artifact artifact;
  Status status = artifact::deserialize(bytes, artifact);
  if (!status.isOk())
    return fail(TTC_INVALID_INPUT, status.text, 0);
  for (artifact::Kernel &kernel : artifact.kernels)
    if (request->lookup_kernel && request->lookup_kernel(request->lookup_context, kernel.hash.bytes))
      kernel.code.clear();
  if (request->dump) {
    request->dump(request->dump_context, "10-graph.mlir", text, size);
    request->dump(request->dump_context, "60-kernel.o", "\xff\xfe", 2);
  }
  bytes = artifact::serialize(artifact);
  *out = toBuffer(bytes.data(), bytes.size());
  return {};
}

TTC_API ttc_status ttc_load(const void *object, size_t size, const char *symbol, ttc_resolve_fn resolve, void *context,
                            void **function, void **handle) {
  int file = memfd_create("kernel", 0);
  if (write(file, object, size) != static_cast<ssize_t>(size))
    return fail(TTC_INTERNAL, "short write", 0);
  std::string path = "/proc/self/fd/" + std::to_string(file);
  *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  close(file);
  if (!*handle)
    return fail(TTC_INVALID_INPUT, dlerror(), 0);
  *function = dlsym(*handle, symbol);
  if (!resolve(context, "Sleef_expf8_u10") && !resolve(context, "expf"))
    return fail(TTC_INTERNAL, "the resolver knows no expf", 0);
  return {};
}

TTC_API void ttc_unload(void *handle) { dlclose(handle); }
TTC_API void ttc_buffer_free(ttc_buffer *buffer) {
  std::free(buffer->data);
  *buffer = {};
}
TTC_API void ttc_status_free(ttc_status *status) {
  ttc_buffer_free(&status->stage);
  ttc_buffer_free(&status->text);
}
}
