// The CUDA driver, opened when it is first needed: a machine without one imports the same extension.
#pragma once

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>

namespace torch_tile::runtime {

using CudaFunction = struct CudaFunctionTag *;
using CudaModule = struct CudaModuleTag *;
using CudaContext = struct CudaContextTag *;
using CudaStream = struct CudaStreamTag *;

/// The functions we call, by the driver's names, without its headers.
class CudaDriver {
public:
  /// Throws c10::Error where the process has no driver.
  static const CudaDriver &get();

  /// Throws c10::Error if `code` is no success; `action` says what was tried.
  void check(int code, const char *action) const {
    if (C10_UNLIKELY(code != 0))
      fail(code, action);
  }

  int (*cuCtxGetCurrent)(CudaContext *);
  int (*cuCtxSetCurrent)(CudaContext);
  int (*cuDevicePrimaryCtxRetain)(CudaContext *, int device);
  int (*cuModuleLoadDataEx)(CudaModule *, const void *image, unsigned numOptions, int *options, void **values);
  int (*cuModuleGetFunction)(CudaFunction *, CudaModule, const char *name);
  int (*cuFuncSetAttribute)(CudaFunction, int attribute, int value);
  int (*cuFuncGetAttribute)(int *value, int attribute, CudaFunction);
  int (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int *count, CudaFunction, int numThreads, size_t sharedBytes);
  int (*cuLaunchKernel)(CudaFunction, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned sharedBytes, CudaStream, void **parameters, void **extra);
  int (*cuMemcpyDtoDAsync)(uint64_t target, uint64_t source, size_t count, CudaStream);
  int (*cuMemsetD8Async)(uint64_t pointer, unsigned char value, size_t count, CudaStream);
  int (*cuGetErrorString)(int code, const char **text);

private:
  CudaDriver();
  [[noreturn]] void fail(int code, const char *action) const;
};

} // namespace torch_tile::runtime
