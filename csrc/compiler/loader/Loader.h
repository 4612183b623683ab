// Object code into memory: linking only, no code generation. Starting it costs a fraction of a millisecond.
#pragma once

#include "support/Status.h"

#include <functional>
#include <memory>
#include <span>
#include <string>

namespace torch_tile {

/// Code linked into memory; unmapped when destroyed.
class LoadedCode {
public:
  virtual ~LoadedCode();
  void *function = nullptr;
};

/// Address of a function that code calls, or null. Must not throw: it is called under LLVM's frames.
using ResolveFn = std::function<void *(const char *symbol)>;

/// Links `object` (copied) and finds `symbol` in it. What `resolve` does not know is looked up in the process (libc and
/// libm). Thread-safe; code may be destroyed on any thread once nothing runs it.
Status loadObject(std::span<const uint8_t> object, const std::string &symbol, const ResolveFn &resolve,
                  std::unique_ptr<LoadedCode> &code);

/// After a load that never came to its end: what was loaded stays, later loads begin afresh.
void abandonLoader();

} // namespace torch_tile
