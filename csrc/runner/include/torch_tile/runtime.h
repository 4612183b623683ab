/* Runs models that torch_tile.aot.package has written, without Python. C99; every function is thread-safe unless it
 * says otherwise, and none lets a C++ exception out.
 *
 *   tile_model *model;
 *   if (tile_model_load("model.tile", NULL, &model) != TILE_OK)
 *     puts(tile_last_error());
 *   tile_results *results;
 *   if (tile_model_run(model, inputs, numInputs, &results) == TILE_OK) {
 *     const tile_tensor *first = tile_results_get(results, 0);
 *     ...
 *     tile_results_free(results);
 *   }
 *   tile_model_free(model);
 *
 * Programs that call operators of PyTorch are run by libtorch_tile_runtime_torch.so, which lies beside this library and
 * is opened when the first of them is loaded; it needs LibTorch. Other programs need nothing but the C++ library.
 */
#ifndef TORCH_TILE_RUNTIME_H
#define TORCH_TILE_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TILE_API __attribute__((visibility("default")))

/* Functions and structs of one number stay as they are. */
#define TILE_API_VERSION 1

typedef struct tile_model tile_model;
typedef struct tile_results tile_results;

typedef enum {
  TILE_OK = 0,
  TILE_INVALID_ARGUMENT = 1, /* of this call: wrong dtype, size or number */
  TILE_INVALID_PACKAGE = 2,  /* no package, damaged, cut short, another version */
  TILE_UNSUPPORTED = 3,      /* no program for this machine, or LibTorch is missing */
  TILE_FAILED = 4            /* the model itself: an index out of range, no memory */
} tile_status;

/* Field by field what DLTensor of DLPack is, so that a pointer to one may be cast to the other. */
typedef struct {
  void *data;
  int32_t device_type; /* 1: CPU, 2: CUDA */
  int32_t device_id;
  int32_t ndim;
  uint8_t dtype_code; /* DLPack's: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, 10 float8_e4m3fn, ... */
  uint8_t dtype_bits;
  uint16_t dtype_lanes; /* 1 */
  const int64_t *shape;
  const int64_t *strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
} tile_tensor;

typedef struct {
  uint32_t struct_bytes; /* sizeof(tile_load_options) */
  int32_t device_type;   /* 0 or 1: CPU, 2: CUDA */
  int32_t device_id;
  int32_t num_threads; /* that one call may use, at most 1024; 0: as many as the machine or OMP_NUM_THREADS has */
  int32_t force_torch; /* 1: LibTorch runs programs that need not it, too */
  int32_t reserved[3];
} tile_load_options;

/* What went wrong in this thread's last call that failed. Valid until its next one. */
TILE_API const char *tile_last_error(void);
TILE_API uint32_t tile_api_version(void);

/* `options` may be NULL. The file is mapped, and must not change until the model is freed. */
TILE_API tile_status tile_model_load(const char *path, const tile_load_options *options, tile_model **model);
TILE_API void tile_model_free(tile_model *model);

/* "x86-64-v3", "sm_90", ...: what the program in use was compiled for. Lives as long as the model. */
TILE_API const char *tile_model_target(const tile_model *model);
TILE_API int tile_model_uses_torch(const tile_model *model);

TILE_API size_t tile_model_num_inputs(const tile_model *model);
/* NULL where there is no such input. */
TILE_API const char *tile_model_input_name(const tile_model *model, size_t input);
/* Kind and sizes of an input: dtype, number of dimensions, and the least and greatest size of each (arrays of `ndim`,
 * which live as long as the model). An integer is an int64 without dimensions whose bounds are those of its value. */
typedef struct {
  uint8_t dtype_code, dtype_bits;
  uint8_t is_integer;
  int32_t ndim;
  const int64_t *least, *greatest;
} tile_input_info;
TILE_API tile_status tile_model_input_info(const tile_model *model, size_t input, tile_input_info *info);

/* One call. Inputs are borrowed: their memory must stay until the call returns, and is written where the model writes
 * its inputs. An integer is an int64 tensor without dimensions. Any number of threads may call at once; calls of a
 * model that writes its own buffers wait for each other. */
TILE_API tile_status tile_model_run(tile_model *model, const tile_tensor *inputs, size_t num_inputs,
                                    tile_results **results);

/* Results own their memory. One that is None has no data and ndim -1. */
TILE_API size_t tile_results_count(const tile_results *results);
TILE_API const tile_tensor *tile_results_get(const tile_results *results, size_t index);
TILE_API void tile_results_free(tile_results *results);

#ifdef __cplusplus
}
#endif

#endif
