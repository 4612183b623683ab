#!/usr/bin/env bash
# sanitize.sh [address|thread] [--compiler] [pytest arguments]: builds our code under a sanitizer and runs tests under it.
#   address   address and undefined behaviour, in build-asan/ (default)
#   thread    data races, in build-tsan/
#   --compiler  the compiler library too (an hour on two cores); else the one of build/ is taken as it is
# Without pytest arguments: the unit tests, then tests/runtime, tests/backend and the operator suite of the fast tier.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
kind=address compiler=OFF
while [ $# -gt 0 ]; do
  case $1 in
  address | thread) kind=$1 ;;
  --compiler) compiler=ON ;;
  *) break ;;
  esac
  shift
done
case $kind in
address) folder=$root/build-asan sanitizers="address;undefined" library=libasan.so ;;
thread) folder=$root/build-tsan sanitizers="thread" library=libtsan.so ;;
esac

# The libraries named above are those of GCC.
export CC=cc CXX=c++
say "building under $kind"
cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTORCH_TILE_BUILD_TESTS=ON -DTORCH_TILE_BUILD_COMPILER=$compiler \
  -DTORCH_TILE_LLVM_DIR="$llvm" -DPython_EXECUTABLE="$python" -DTORCH_TILE_SANITIZE="$sanitizers" >/dev/null
ninja -C "$folder" -j "$jobs"

# A package of its own: sources of this checkout, libraries of that build.
tree=$folder/tree
rm -rf "$tree"
mkdir -p "$tree"
cp -r torch_tile tests setup.cfg pyproject.toml "$tree"
mkdir -p "$tree/docs" && cp -r docs/generated "$tree/docs"
cmake --install "$folder" --prefix "$tree" >/dev/null

# Memory that Python, torch and LLVM hold to the end is no finding of ours.
export ASAN_OPTIONS=detect_leaks=0:allow_user_poisoning=0:allocator_may_return_null=1:abort_on_error=1:handle_segv=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=suppressions=$root/.ci/tsan.supp:halt_on_error=0:exitcode=66:history_size=4
failed=()
say "unit tests under $kind"
ctest --test-dir "$folder" --output-on-failure -j "$jobs" || failed+=(unit)

say "pytest under $kind"
# The base interpreter with the environment's packages: an editable installation would take the package of this checkout.
base=$("$python" -c 'import sys; print(sys._base_executable)')
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
file_of() { gcc -print-file-name="$1"; }
[ $# -gt 0 ] || set -- tests/runtime tests/backend tests/ops/test_ops.py tests/ops/test_writes.py
cd "$tree"
LD_PRELOAD="$(file_of $library) $(file_of libstdc++.so.6)" PYTHONPATH="$tree:$packages" PYTHONMALLOC=malloc \
  TORCH_TILE_SANITIZED=$kind "$base" -m pytest -q -p no:cacheprovider -m "not slow and not model and not fuzz and not gpu" "$@" || failed+=(pytest)

[ ${#failed[@]} -eq 0 ] || die "failed under $kind: ${failed[*]}"
say "passed under $kind"
