// Jobs that LLVM, an assertion or a fault may end without ending the process.
#pragma once

#include <functional>
#include <string>

namespace torch_tile {

/// Runs a job and answers what ended it early; empty if nothing did.
///
/// What ends a job: LLVM's fatal errors, abort() and failed assertions of this library, exceptions, and faults of this
/// library's instructions (an invalid address, the end of the stack). Control then comes back here past all frames in
/// between, and their destructors do not run. What those frames held stays allocated or locked for good. So the
/// calling thread must end soon after, and nobody may use what the job shared with others again. LLVM recovers in the
/// same way in clang and libclang (CrashRecoveryContext); unlike there, faults in other libraries (malloc with its
/// locks held) and on other threads end the process as ever.
///
/// Only for threads that `prepareThread` has been called on.
std::string runGuarded(const std::function<void()> &job);

/// Gives the calling thread a stack for signal handlers, so that the end of its own stack can be reported.
void prepareThread();

/// Ends the guarded job of the calling thread. Returns where there is none.
void endGuardedJob(const char *reason);

/// In a forked child: the jobs of threads that it does not have are no more.
void forgetJobsOfParent();

/// Names the latest stage that the calling thread's job has completed, for its last words.
void noteStage(const char *stage);

/// A fault of a kind that tests ask for (support/FaultPoint.h): exception, bad_alloc, logic_error, fatal, assert,
/// abort, segv or overflow.
void raiseFault(std::string_view kind);

} // namespace torch_tile
