// Kernels loaded into this process, each once: programs that share a kernel share its code.
#pragma once

#include "artifact/Artifact.h"
#include "artifact/KernelAbi.h"
#include "support/Status.h"

#include <memory>
#include <span>

namespace torch_tile::runtime {

/// Code stays mapped as long as someone holds the kernel.
struct LoadedKernel {
  LoadedKernel(KernelFn function, void *handle) : function(function), handle(handle) {}
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel &) = delete;
  LoadedKernel &operator=(const LoadedKernel &) = delete;

  KernelFn function;
  void *handle;
};

/// The kernel if some program of this process holds it.
std::shared_ptr<const LoadedKernel> findLoadedKernel(const artifact::Hash &hash);

/// Links `object` unless the kernel is loaded already. Thread-safe.
Status loadKernel(const artifact::Hash &hash, std::span<const uint8_t> object, const std::string &symbol,
                  std::shared_ptr<const LoadedKernel> &kernel);

} // namespace torch_tile::runtime
