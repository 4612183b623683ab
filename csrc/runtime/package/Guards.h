// Whether the arguments of a call are those that a packaged model was compiled for, and which one is not.
#pragma once

#include "artifact/Artifact.h"
#include "artifact/Package.h"
#include "runtime/sizes/SizeProgram.h"
#include "support/Status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace torch_tile::runtime {

/// One argument as a guard sees it.
struct ArgumentView {
  bool isTensor = true;
  artifact::ElementType type = artifact::ElementType::Float32;
  std::span<const int64_t> sizes, strides;
  int64_t value = 0; // where it is no tensor
};

class Guards {
public:
  /// Both outlive the guards. `program` is what `variant` of `package` names.
  Guards(const artifact::Package &package, const artifact::Variant &variant, const artifact::Artifact &program);

  /// Number, kind, dtype and sizes of the arguments, and strides where they count; the message names the argument and
  /// the dimension.
  Status check(std::span<const ArgumentView> arguments) const;

  /// Sizes and strides of the program's inputs and all else that depends on sizes; for arguments that passed.
  void evaluate(std::span<const ArgumentView> arguments, std::vector<int64_t> &values) const;
  const SizeProgram &sizeProgram() const { return sizes; }

private:
  Status checkRange(uint32_t number, const ArgumentView &argument) const;
  Status checkSymbols(std::span<const ArgumentView> arguments) const;
  Status checkEqual(std::span<const ArgumentView> arguments) const;
  Status checkStrides(std::span<const ArgumentView> arguments) const;

  const artifact::Package &package;
  const artifact::Variant &variant;
  const artifact::Artifact &program;
  SizeProgram sizes;
  std::vector<artifact::ExprId> early; // need symbols of inputs only
};

/// "float32" for Float32, ...
const char *nameOf(artifact::ElementType type);

} // namespace torch_tile::runtime
