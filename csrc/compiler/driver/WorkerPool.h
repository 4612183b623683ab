// Threads that compile, and survive LLVM's fatal errors.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace torch_tile {

/// Runs the jobs on up to `numThreads` threads of the process's pool and waits for all. Answers one text per job:
/// empty, or LLVM's last words.
///
/// LLVM's fatal error path ends the process. Its handler may not return, and nothing may unwind through LLVM's frames;
/// so the thread it is called on reports its job as failed and then sleeps for good: the thread, and what it held, are
/// given up, the process lives. The pool starts with the first job, and afresh in a forked child.
std::vector<std::string> runJobs(const std::vector<std::function<void()>> &jobs, int numThreads);

} // namespace torch_tile
