// One dispatcher call: the operator looked up and its constant arguments built when the program is loaded.
#pragma once

#include "artifact/Artifact.h"
#include "runtime/executor/MatrixProduct.h"
#include "runtime/executor/PackedWeight.h"
#include "runtime/sizes/SizeProgram.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

namespace torch_tile::runtime {

class ExternCall {
public:
  /// Throws if no such operator is registered or an argument does not fit its schema.
  ExternCall(const artifact::Extern &step, const SizeProgram &sizes, MatmulLibrary matmul);

  /// Calls the operator; `stack` comes back with its returns. `weight` may be null.
  void call(const at::Tensor *slots, const int64_t *values, torch::jit::Stack &stack, const PackedWeight *weight) const;

  const std::string &name() const { return displayName; }
  /// What the schema says that it writes.
  const std::vector<uint32_t> &writtenSlots() const { return written; }

private:
  struct Argument {
    enum class Kind : uint8_t { Constant, Tensor, Int, Tree } kind;
    uint32_t ref = 0;
    c10::IValue constant;
    artifact::Value tree;
    c10::TypePtr type;
  };

  c10::OperatorHandle op;
  DirectCall direct; // tried before the dispatcher; may be null
  std::string displayName;
  std::vector<Argument> arguments;
  std::vector<uint32_t> written;
};

/// torch's name without "torch." -> ScalarType. Throws on an unknown one.
at::ScalarType parseScalarType(const std::string &name);
/// "float32" for Float, ...
const char *scalarTypeName(at::ScalarType type);
at::ScalarType toScalarType(artifact::ElementType type);

} // namespace torch_tile::runtime
