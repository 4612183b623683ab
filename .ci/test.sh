#!/usr/bin/env bash
# test.sh [fast|full|slow|fuzz|gpu] [pytest arguments]
#   fast  lit, C++ unit tests, pytest on the CPU without models: what every change runs
#   full  fast, then the models, the slow and the randomised tests
#   slow  only what full adds to fast
#   fuzz  only the randomised tests; HYPOTHESIS_PROFILE=fuzz makes them long
#   gpu   what needs a device
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
tier=${1:-fast}
shift || true
failed=()

part() { # part NAME COMMAND...: every part runs, the failures are listed at the end
  local name=$1
  shift
  say "$name"
  "$@" || failed+=("$name")
}
lit() { "$python" -c "from lit.main import main; main()" -v "$root/tests/lit" --param build_dir="$build"; }
unit() { # torch's own library, for tests of the functions that kernels borrow from it
  TORCH_TILE_LIBTORCH_CPU=$("$python" -c "import torch, os; print(os.path.join(os.path.dirname(torch.__file__), 'lib', 'libtorch_cpu.so'))")
  export TORCH_TILE_LIBTORCH_CPU
  ctest --test-dir "$build" --output-on-failure -j "$jobs"
}
# The fast tests run in two processes (TEST_WORKERS=n: in n). Each has its own cache folder (tests/conftest.py) and as many
# threads as alone, so that parallel code is tested; threads that wait must not take the other process's core.
workers=${TEST_WORKERS:-$(($(nproc) < 2 ? 1 : 2))}
pytests() { # exit status 5 means that no test has these markers
  OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} "$python" -m pytest -q -m "$@"
  local rc=$?
  [ $rc -eq 0 ] || [ $rc -eq 5 ]
}

case $tier in
fast | full)
  part lit lit
  part unit unit
  part pytest pytests "not slow and not model and not fuzz and not gpu" -n "$workers" "$@"
  ;;&
full | slow) part "pytest, slow and models" pytests "(slow or model or fuzz) and not gpu" "$@" ;;
fuzz) part "pytest, fuzz" pytests "fuzz and not gpu" "$@" ;;
gpu) part "pytest, gpu" pytests gpu "$@" ;;
fast) ;;
*) die "tier expected to be fast, full, slow, fuzz or gpu, got $tier" ;;
esac

if [ ${#failed[@]} -gt 0 ]; then
  say "failed: ${failed[*]}"
  exit 1
fi
say "passed: $tier"
