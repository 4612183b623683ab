// A packaged model within torch: constants as tensors over the mapped file, arguments checked and put in their places.
#pragma once

#include "runtime/executor/FailurePlace.h"
#include "runtime/executor/FrozenInputs.h"
#include "runtime/executor/Program.h"
#include "runtime/package/Guards.h"
#include "runtime/package/PackageFile.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace torch_tile::runtime {

class PackagedModel {
public:
  /// Throws c10::Error where operators are missing.
  static Status load(std::shared_ptr<const PackageFile> file, uint32_t variant, const ProgramOptions &options,
                     std::shared_ptr<PackagedModel> &model);

  /// Results that lie in an argument or a constant: views of it, or copies that no later call changes.
  enum class Results { Views, Copies };

  /// One call; arguments are tensors and integers in the order of the package's inputs, results those of the program.
  /// Any number of threads may call, one after the other where the program writes constants. Throws c10::Error;
  /// `failure` then says which step has failed, and has no steps if that was none.
  std::vector<c10::IValue> run(std::span<const c10::IValue> arguments, FailurePlace &failure,
                               Results wanted = Results::Views);
  /// What the package knows of it.
  std::string note(const FailurePlace &failure) const;

  const artifact::Variant &variant() const { return file->package().variants[number]; }
  const Program &program() const { return *loaded; }
  /// A parameter or buffer as it is now.
  const at::Tensor &constant(uint32_t index) const { return constants[index]; }

private:
  PackagedModel(std::shared_ptr<const PackageFile> file, uint32_t variant, artifact::Artifact artifact);
  Status link(const ProgramOptions &options);
  void makeConstants();
  at::Tensor withStrides(const at::Tensor &tensor, const artifact::Input &input,
                         const std::vector<int64_t> &values) const;
  void copyForeign(std::vector<c10::IValue> &results, std::span<const c10::IValue> arguments) const;

  std::shared_ptr<const PackageFile> file;
  uint32_t number;
  artifact::Artifact source;
  Guards guards;
  std::shared_ptr<const Program> loaded;
  c10::Device device{c10::kCPU};
  std::vector<at::Tensor> constants; // by number
  std::unique_ptr<FrozenInputs> frozen;
  size_t numPlain = 0; // program inputs before those that `frozen` holds
  bool writesConstants = false;
  std::mutex mutex; // of calls that write constants
};

} // namespace torch_tile::runtime
