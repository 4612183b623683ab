#include "runtime/executor/FailurePlace.h"

#include "runtime/launch/cpu/CpuLaunch.h"

#include <utility>

namespace torch_tile::runtime {

FailurePlace failurePlace(std::vector<const artifact::Step *> steps, const std::exception &error) {
  FailurePlace place{std::move(steps), {}};
  auto *check = dynamic_cast<const FailedCheck *>(&error);
  if (!check || !check->line || place.steps.empty())
    return place;
  const std::vector<uint32_t> &lines = place.steps.front()->lines;
  if (auto position = static_cast<size_t>(*check->line); position < lines.size())
    place.line = lines[position];
  return place;
}

} // namespace torch_tile::runtime
