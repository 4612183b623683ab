#include "support/FaultPoint.h"

#include <mutex>
#include <string>
#include <utility>

namespace torch_tile {

std::atomic<bool> FaultPoints::isArmed = false;

namespace {

struct Armed {
  std::mutex mutex;
  std::string stage, kind;
  FaultPoints::RaiseFn raise = nullptr;
  int numReached = 0;
};

Armed &armed() {
  static auto *instance = new Armed; // threads may outlive static destructors
  return *instance;
}

} // namespace

int FaultPoints::arm(std::string_view fault, RaiseFn raise) {
  Armed &a = armed();
  std::lock_guard lock(a.mutex);
  size_t colon = fault.find(':');
  a.stage = fault.substr(0, colon);
  a.kind = colon == std::string_view::npos ? "" : fault.substr(colon + 1);
  a.raise = raise;
  isArmed = !fault.empty();
  return std::exchange(a.numReached, 0);
}

void FaultPoints::reachArmed(std::string_view stage) {
  Armed &a = armed();
  RaiseFn raise;
  std::string kind;
  {
    std::lock_guard lock(a.mutex);
    if (a.stage != stage)
      return;
    ++a.numReached;
    raise = a.raise;
    kind = a.kind;
  }
  // A copy on the stack: who raises may never come back to free it.
  char name[32] = {};
  kind.copy(name, sizeof(name) - 1);
  kind = {};
  raise(name);
}

} // namespace torch_tile
