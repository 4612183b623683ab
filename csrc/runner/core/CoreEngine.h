// Runs step programs without LibTorch: memory, views, kernels and checks. Calls of operators are the other engine's.
#pragma once

#include "runner/Engine.h"
#include "runner/core/Buffers.h"
#include "runtime/launch/cpu/KernelRange.h"
#include "runtime/link/ObjectLoader.h"

#include <mutex>
#include <optional>
#include <string>

namespace torch_tile::runner {

class CoreEngine final : public Engine {
public:
  CoreEngine(std::shared_ptr<const runtime::PackageFile> file, uint32_t variant, artifact::Artifact program,
             int32_t numThreads);

  /// Kernels into memory. Refuses a program that calls operators.
  Status link();
  Status run(std::span<const tile_tensor> inputs, std::vector<Result> &results) noexcept override;

private:
  /// A tensor of the running call: memory that it keeps, or that is an argument's or a constant's.
  struct Slot {
    std::shared_ptr<char> owner;
    char *data = nullptr;
    artifact::ElementType type = artifact::ElementType::Float32;
    std::vector<int64_t> sizes, strides;
  };
  struct Call {
    std::vector<int64_t> values;
    std::vector<Slot> slots;
  };

  const artifact::Variant &variant() const { return file->package().variants[number]; }
  Status runChecked(std::span<const tile_tensor> inputs, std::vector<Result> &results);
  Status setInputs(std::span<const tile_tensor> inputs, Call &call) const;
  Status setArgument(uint32_t input, const tile_tensor &given, Call &call) const;
  Status refuseOverlaps(std::span<const tile_tensor> inputs) const;
  Status runSteps(Call &call) const;
  runtime::KernelFailure launch(const artifact::Launch &step, Call &call) const;
  /// Of a step, with what the package knows of it; `position` is that of a line among those of the step.
  Status failed(std::string text, const artifact::Step &step, std::optional<int64_t> position = {}) const;
  void alias(const artifact::Alias &step, Call &call) const;
  std::vector<int64_t> dims(const std::vector<artifact::ExprId> &ids, const Call &call) const;
  Result makeResult(const artifact::Output &output, const Call &call) const;

  std::shared_ptr<const runtime::PackageFile> file;
  uint32_t number;
  artifact::Artifact program;
  runtime::Guards guards;
  int32_t numThreads;
  std::vector<std::shared_ptr<const runtime::LoadedObject>> kernels;
  std::vector<bool> isWritten; // program inputs
  std::shared_ptr<Buffers> buffers = std::make_shared<Buffers>();
  bool writesConstants = false;
  std::mutex mutex; // of calls that write constants
};

} // namespace torch_tile::runner
