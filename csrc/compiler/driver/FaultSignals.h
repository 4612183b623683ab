// Signals of faults, while guarded jobs run.
#pragma once

namespace torch_tile {

/// While one of these lives, a fault of this library's own instructions on a thread with a guarded job ends that job.
/// All other faults go to the handlers that were there before. Without one alive, no handler is ours.
class FaultSignals {
public:
  FaultSignals();
  ~FaultSignals();
  FaultSignals(const FaultSignals &) = delete;
  FaultSignals &operator=(const FaultSignals &) = delete;
};

} // namespace torch_tile
