// What a package says of the user's program behind the steps of its own: read when a step has failed.
#pragma once

#include "runtime/package/PackageFile.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace torch_tile::runtime {

/// What a step does; empty for one that cannot fail.
std::string stepName(const artifact::Artifact &program, const artifact::Step &step);

struct SourceLine {
  std::string op;                  // that the user called; may be empty
  std::string place;               // "file:line: code"; may be empty
  bool raisesRuntimeError = false; // eager mode, for an index out of range
};

class SourceLines {
public:
  /// Of the text that a variant was compiled from. Empty where the package has none, or they are damaged: another error
  /// is what matters.
  static SourceLines of(const PackageFile &file, const artifact::Variant &variant);

  const std::map<uint32_t, SourceLine> &lines() const { return known; }

  /// "raised by OPERATOR in STEP, from PLACE", as torch_tile/debug/failures.py has it.
  ///
  /// `steps` are the one that failed and those that ran its body, innermost first; `line` is the one of the check that
  /// failed, where that is known.
  std::string note(const artifact::Artifact &program, std::span<const artifact::Step *const> steps,
                   std::optional<uint32_t> line) const;

private:
  std::map<uint32_t, SourceLine> known;
};

} // namespace torch_tile::runtime
