// The only door into libtorch_tile_compiler. C types only; every function is thread-safe. Whatever happens in a compile
// or a load (fatal errors of LLVM, failed assertions, exceptions, faults) comes back as a status.
#ifndef TORCH_TILE_COMPILER_C_API_H
#define TORCH_TILE_COMPILER_C_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TTC_API __attribute__((visibility("default")))

/// Bytes owned by the compiler library until ttc_buffer_free.
typedef struct {
  char *data;
  size_t size;
} ttc_buffer;

enum ttc_status_kind {
  TTC_OK = 0,
  TTC_INVALID_INPUT = 1,
  TTC_UNSUPPORTED = 2,
  TTC_INTERNAL = 3,
  TTC_OUT_OF_RESOURCES = 4
};

/// The outcome of a call. `line` is a line of the input text, 0 if unknown. Of a good one, `text` holds notes: lines of
/// a line of the input text (0: none) and a message.
typedef struct {
  int32_t kind;
  int32_t line;
  ttc_buffer stage;
  ttc_buffer text;
} ttc_status;

/// Called once per stage with the file name of the dump ("10-graph.mlir", "60-kernel.s", "timing.json") and its text.
typedef void (*ttc_dump_fn)(void *context, const char *file, const char *data, size_t size);

/// Answers whether the object code of a kernel is at hand already. On 1 the caller fills nothing: the artifact will
/// name the hash and carry no code.
typedef int (*ttc_lookup_kernel_fn)(void *context, const uint8_t hash[32]);

/// Resolves a function that kernels call and the compiler library does not hold (Sleef in libtorch_cpu). Null if
/// unknown.
typedef void *(*ttc_resolve_fn)(void *context, const char *symbol);

typedef struct {
  /// "key=value" lines; unknown keys are an error. See driver/Options.h.
  const char *options;
  size_t options_size;
  ttc_dump_fn dump; // may be null: no dumps are made
  void *dump_context;
  ttc_lookup_kernel_fn lookup_kernel; // may be null
  void *lookup_context;
} ttc_compile_request;

/// Version of this library, of LLVM, and the host's target features, one per line. Static storage.
TTC_API const char *ttc_version(void);

/// Two lines of names separated by commas: processors that LLVM knows, and instruction sets that the named one has and
/// this machine lacks.
TTC_API ttc_buffer ttc_describe_processor(const char *name);

/// BLAKE3.
TTC_API void ttc_hash(const void *data, size_t size, uint8_t hash[32]);

/// Compiles a module in the graph dialect to artifact bytes (csrc/artifact).
TTC_API ttc_status ttc_compile(const char *text, size_t size, const ttc_compile_request *request, ttc_buffer *artifact);

/// A module of Triton's IR, in generic form, to text of the tile dialect. With `embeddable` the text can stand beside
/// other such modules in one file: locations are written out where they are used. With `pointers_first`
/// kernels take their pointers before their numbers.
TTC_API ttc_status ttc_import_triton(const char *text, size_t size, int embeddable, int pointers_first,
                                     ttc_buffer *tile);

/// Compiles a module with one tile.kernel (or tt.func) to the bytes of a standalone kernel
/// (csrc/artifact/StandaloneKernel.h).
TTC_API ttc_status ttc_compile_kernel(const char *text, size_t size, const ttc_compile_request *request,
                                      ttc_buffer *kernel);

/// Links an object in memory and finds a function in it. The code stays mapped until ttc_unload.
TTC_API ttc_status ttc_load(const void *object, size_t size, const char *symbol, ttc_resolve_fn resolve, void *context,
                            void **function, void **handle);
TTC_API void ttc_unload(void *handle);

/// For tests: the stage that "stage:kind" names fails in that way whenever it is reached (driver/Guard.h); "" ends it.
/// Returns how often the fault before has been reached.
TTC_API int ttc_inject_fault(const char *fault);

TTC_API void ttc_buffer_free(ttc_buffer *buffer);
TTC_API void ttc_status_free(ttc_status *status);

#ifdef __cplusplus
}
#endif

#endif
