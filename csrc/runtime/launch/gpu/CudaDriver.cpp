#include "runtime/launch/gpu/CudaDriver.h"

#include <dlfcn.h>

namespace torch_tile::runtime {

const CudaDriver &CudaDriver::get() {
  static const CudaDriver driver; // tried again by the next call if it throws
  return driver;
}

CudaDriver::CudaDriver() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(library, "a kernel for CUDA needs NVIDIA's driver: ", dlerror());
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    TORCH_CHECK(function, "libcuda.so.1 has no function ", name, ": a newer NVIDIA driver is needed");
  };
  find(cuCtxGetCurrent, "cuCtxGetCurrent");
  find(cuCtxSetCurrent, "cuCtxSetCurrent");
  find(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  find(cuModuleLoadDataEx, "cuModuleLoadDataEx");
  find(cuModuleGetFunction, "cuModuleGetFunction");
  find(cuFuncSetAttribute, "cuFuncSetAttribute");
  find(cuFuncGetAttribute, "cuFuncGetAttribute");
  find(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  find(cuLaunchKernel, "cuLaunchKernel");
  find(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
  find(cuMemsetD8Async, "cuMemsetD8Async");
  find(cuGetErrorString, "cuGetErrorString");
}

void CudaDriver::fail(int code, const char *action) const {
  const char *text = nullptr;
  if (cuGetErrorString(code, &text) != 0 || !text)
    text = "unknown error";
  TORCH_CHECK(false, "CUDA error: ", text, " (", code, ") while ", action);
}

} // namespace torch_tile::runtime
