// Writes to the disk cache behind the back of the compile that made them: waiting for the disk costs milliseconds an
// entry.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace torch_tile::runtime {

/// Runs `job` on a background thread, after all jobs posted before. `names` count as stored from now on. What the job
/// throws is noted, no more.
void postStore(std::vector<std::string> names, std::function<void()> job);

/// Whether a job that stores `name` waits or runs.
bool isStorePending(const std::string &name);

/// Waits until every job is done. Jobs of a parent process are the parent's.
void drainStores();

} // namespace torch_tile::runtime
