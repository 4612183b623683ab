#include "compiler/driver/KernelNames.h"

#include "compiler/fusion/FusionCost.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using llvm::StringRef;

namespace torch_tile::driver {

/// Ops that say little about a kernel.
static bool isSilent(StringRef op) {
  return llvm::StringSwitch<bool>(op)
      .Cases({"view", "permute", "expand", "slice", "select", "unfold", "as_strided", "full", "cast", "size_value"},
             true)
      .Cases({"return", "none", "size", "func"}, true)
      .Default(false);
}

KernelNames::KernelNames(std::string_view graphText) {
  opOfLine.emplace_back();
  llvm::SmallVector<StringRef> lines;
  StringRef(graphText.data(), graphText.size()).split(lines, '\n');
  for (StringRef line : lines) {
    std::string &op = opOfLine.emplace_back();
    auto [before, after] = line.split("= graph.");
    if (after.empty())
      after = line.trim().starts_with("graph.") ? line.trim().drop_front(6) : StringRef();
    op = after.take_while([](char c) { return isalnum(c) || c == '_'; }).str();
  }
}

std::string KernelNames::of(mlir::graph::FusionOp fusion) const {
  llvm::SmallVector<int64_t> lines;
  torch_tile::fusion::collectLines(fusion.getLoc(), lines);
  llvm::sort(lines);
  constexpr size_t maxOps = 6;
  llvm::StringSet<> seen;
  std::string name = "fused";
  for (int64_t line : lines) {
    if (line <= 0 || (size_t)line >= opOfLine.size())
      continue;
    StringRef op = opOfLine[line];
    if (op.empty() || isSilent(op) || !seen.insert(op).second)
      continue;
    if (seen.size() > maxOps) {
      name += "_etc";
      break;
    }
    name += "_" + op.str();
  }
  return seen.empty() ? "fused_copy" : name;
}

} // namespace torch_tile::driver
