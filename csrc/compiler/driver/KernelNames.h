// Names of kernels for people: what a kernel does, from the ops of the graph text it was made of.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

#include <string_view>
#include <vector>

namespace torch_tile::driver {

class KernelNames {
public:
  explicit KernelNames(std::string_view graphText);

  /// "fused_add_exp_sum": distinct ops in program order, views and constants left out.
  std::string of(mlir::graph::FusionOp fusion) const;

private:
  std::vector<std::string> opOfLine; // by line number, from 1; empty where the line has no op of the dialect
};

} // namespace torch_tile::driver
