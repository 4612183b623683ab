// Kernels loaded into this process, each once: programs that share a kernel share its code.
#pragma once

#include "artifact/Artifact.h"
#include "artifact/KernelAbi.h"
#include "runtime/launch/gpu/GpuKernel.h"
#include "runtime/link/ObjectLoader.h"
#include "support/Status.h"

#include <memory>
#include <span>

namespace torch_tile::runtime {

/// Code stays mapped as long as someone holds the kernel.
struct LoadedKernel {
  LoadedKernel(KernelFn function, void *handle) : function(function), handle(handle) {}
  explicit LoadedKernel(std::shared_ptr<const LoadedObject> object)
      : function(object->function), handle(nullptr), object(std::move(object)) {}
  explicit LoadedKernel(std::unique_ptr<GpuKernel> gpu) : function(nullptr), handle(nullptr), gpu(std::move(gpu)) {}
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel &) = delete;
  LoadedKernel &operator=(const LoadedKernel &) = delete;

  KernelFn function; // on CPU
  void *handle;      // of the compiler library, if that has linked it
  std::shared_ptr<const LoadedObject> object;
  std::unique_ptr<GpuKernel> gpu; // on GPU
};

/// The kernel if some program of this process holds it.
std::shared_ptr<const LoadedKernel> findLoadedKernel(const artifact::Hash &hash);

/// Links `code` of the described kernel unless it is loaded already. Code for GPU is only kept: devices load it when
/// they first launch it. Thread-safe.
Status loadKernel(const artifact::Kernel &described, std::span<const uint8_t> code,
                  std::shared_ptr<const LoadedKernel> &kernel);

} // namespace torch_tile::runtime
