#!/usr/bin/env bash
# bundle.sh [FOLDER]: everything that another machine needs to build the extension against its own torch and to run
# tests and benchmarks, without LLVM: the compiler library (stripped, compressed) and sources. Default: dist/bundle.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
folder=${1:-$root/dist/bundle}
library=$build/lib/libtorch_tile_compiler.so
[ -e "$library" ] || library=$(find "$build" -name libtorch_tile_compiler.so -print -quit)
[ -e "$library" ] || die "no compiler library in $build; run: make build"

rm -rf "$folder"
mkdir -p "$folder/torch_tile"
strip --strip-unneeded -o "$folder/libtorch_tile_compiler.so" "$library"
xz -T0 -6 --force "$folder/libtorch_tile_compiler.so"
# The part of the runner that links no torch, for tests of packages.
strip --strip-unneeded -o "$folder/torch_tile/libtorch_tile_runtime.so" "$root/torch_tile/libtorch_tile_runtime.so"
tar -C "$root" --exclude='*.so' --exclude='__pycache__' --exclude='lit' --exclude='unit' -cf - \
  torch_tile tests benchmarks csrc/runner csrc/runtime csrc/support csrc/artifact csrc/compiler/c_api.h .ci/bundle_run.py \
  pyproject.toml setup.cfg LICENSE | tar -C "$folder" -xf -
mv "$folder/.ci/bundle_run.py" "$folder/run.py"
rmdir "$folder/.ci"
say "$(du -sm "$folder" | cut -f1) MB in $folder"
