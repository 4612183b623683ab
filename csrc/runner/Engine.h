// What runs the program of a loaded model: the core, or LibTorch.
#pragma once

#include "runtime/package/Guards.h"
#include "runtime/package/PackageFile.h"
#include "support/Status.h"
#include "torch_tile/runtime.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace torch_tile::runner {

/// A result and what keeps its memory.
struct Result {
  tile_tensor tensor{};
  std::vector<int64_t> sizes, strides;
  std::shared_ptr<void> owner;
};

/// StatusKind::InvalidInput: an argument; Unsupported: the machine; Internal: the model failed.
class Engine {
public:
  virtual ~Engine() = default;
  /// No exception leaves it. Arguments have passed the guards.
  virtual Status run(std::span<const tile_tensor> inputs, std::vector<Result> &results) noexcept = 0;
};

struct EngineOptions {
  int32_t deviceType = 1, deviceId = 0;
  int32_t numThreads = 0;
};

/// Makes an engine for one variant of a file. The LibTorch library exports a function of this type under
/// `torchEngineSymbol`.
using MakeEngineFn = void (*)(std::shared_ptr<const runtime::PackageFile> file, uint32_t variant,
                              const EngineOptions &options, std::unique_ptr<Engine> &engine, Status &status);
/// Both libraries are of one build, or they do not fit; the number is that of the interface between them.
inline constexpr const char *torchEngineSymbol = "torch_tile_make_torch_engine_4";

/// The engine without LibTorch, for programs that call no operators.
Status makeCoreEngine(std::shared_ptr<const runtime::PackageFile> file, uint32_t variant, const EngineOptions &options,
                      std::unique_ptr<Engine> &engine);

/// DLPack's code and bits.
struct DlType {
  uint8_t code, bits;
};
DlType toDlType(artifact::ElementType type);
/// False where no element type has them.
bool fromDlType(DlType given, artifact::ElementType &type);

} // namespace torch_tile::runner
