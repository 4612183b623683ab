// Threads that compile. What ends a job on them ends neither the process nor the compiles of others.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace torch_tile {

/// Runs the jobs on up to `numThreads` threads of the process's pool and waits for all. Answers one text per job:
/// empty, or what ended it early (Guard.h). A thread on which a job ended early ends too; what the job held is given
/// up. The pool starts with the first job, and afresh in a forked child.
std::vector<std::string> runJobs(const std::vector<std::function<void()>> &jobs, int numThreads);

/// Runs one job on a thread of its own, which has a large stack, and waits for it. Any number may run at a time.
/// Answers as `runJobs` does. Jobs may call `runJobs`.
std::string runContained(std::function<void()> job);

} // namespace torch_tile
