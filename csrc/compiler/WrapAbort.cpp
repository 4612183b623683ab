// What the linker puts in place of abort() and of failed assertions (--wrap): inside a guarded job they end the job.
#include "compiler/driver/Guard.h"

#include <cstdio>

extern "C" {

[[noreturn]] void __real_abort();
[[noreturn]] void __real___assert_fail(const char *assertion, const char *file, unsigned line, const char *function);

[[noreturn]] void __wrap_abort() {
  torch_tile::endGuardedJob("abort() was called");
  __real_abort();
}

[[noreturn]] void __wrap___assert_fail(const char *assertion, const char *file, unsigned line, const char *function) {
  char text[400];
  std::snprintf(text, sizeof(text), "assertion failed: %s (%s:%u)", assertion, file, line);
  torch_tile::endGuardedJob(text);
  __real___assert_fail(assertion, file, line, function);
}

} // extern "C"
