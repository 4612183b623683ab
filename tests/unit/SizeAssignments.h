// Values of size expressions where their symbols have values.
#pragma once

#include "support/SizeExpr.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace torch_tile {

using Assignment = std::map<std::string, int64_t, std::less<>>;

inline std::optional<int64_t> valueOf(SizeExpr e, const Assignment &assignment) {
  return SizeContext::evaluate(e, [&](std::string_view name) -> std::optional<int64_t> {
    auto it = assignment.find(name);
    return it == assignment.end() ? std::nullopt : std::optional(it->second);
  });
}

} // namespace torch_tile
