// Object code into memory where no compiler library is: relocates one ELF object, and knows just what kernels hold.
#pragma once

#include "artifact/KernelAbi.h"
#include "support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace torch_tile::runtime {

/// Code linked into memory; unmapped when destroyed.
class LoadedObject {
public:
  ~LoadedObject();
  LoadedObject(const LoadedObject &) = delete;
  LoadedObject &operator=(const LoadedObject &) = delete;

  KernelFn function = nullptr;

private:
  friend class ObjectLinker;
  LoadedObject() = default;
  void *memory = nullptr;
  size_t sizeBytes = 0;
};

/// Address of a function that code calls, or null.
using ResolveFn = void *(*)(const char *symbol);

/// Functions of libtorch_cpu (Sleef) where it is loaded, then whatever the process has (libm).
void *resolveInProcess(const char *symbol);

/// Whether this file links objects for the processor that it runs on (x86-64).
bool canLoadObjects();

/// Links `object` (copied) and finds `symbol` in it. Any bytes are accepted: what is malformed is a status.
Status loadObject(std::span<const uint8_t> object, const std::string &symbol, ResolveFn resolve,
                  std::shared_ptr<const LoadedObject> &loaded);

} // namespace torch_tile::runtime
