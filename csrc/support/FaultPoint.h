// Faults on request: tests arm one to see that a failure at any stage is contained.
#pragma once

#include <atomic>
#include <string_view>

namespace torch_tile {

class FaultPoints {
public:
  /// Fails in the way that `kind` names: throws, aborts, faults. Each side of the border has kinds of its own.
  using RaiseFn = void (*)(std::string_view kind);

  /// Arms one fault for this library, given as "stage:kind"; empty: none. Returns how often the fault armed before has
  /// been reached.
  static int arm(std::string_view fault, RaiseFn raise);

  /// Costs a load where nothing is armed.
  static void reach(std::string_view stage) {
    if (isArmed.load(std::memory_order_relaxed)) [[unlikely]]
      reachArmed(stage);
  }

private:
  static void reachArmed(std::string_view stage);

  static std::atomic<bool> isArmed;
};

} // namespace torch_tile
