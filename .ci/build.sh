#!/usr/bin/env bash
# The one build of a working copy: CMake and Ninja in build/, the two libraries copied into torch_tile/, and the package registered
# with Python so that torch.compile(backend="tile") finds its entry point. `pip install .` builds a wheel from the same CMake files.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
[ -x "$python" ] || die "no Python at $python; run: bash .ci/setup.sh"

configure=(
  -DCMAKE_BUILD_TYPE=Release
  -DTORCH_TILE_BUILD_TESTS=ON
  -DTORCH_TILE_LLVM_DIR="$llvm"
  -DPython_EXECUTABLE="$python"
  -DCMAKE_C_COMPILER="$cc"
  -DCMAKE_CXX_COMPILER="$cxx"
)
if [ ! -e "$build/build.ninja" ] || [ "${configure[*]}" != "$(cat "$build/.configured" 2>/dev/null)" ]; then
  say "configuring"
  cmake --fresh -S . -B "$build" -G Ninja "${configure[@]}"
  echo "${configure[*]}" > "$build/.configured"
fi

say "building"
"$python" .ci/progress.py ninja -C "$build" -j "$jobs"
cmake --install "$build" --prefix "$root" >/dev/null

torch=$("$python" cmake/torch_of_environment.py)
# Metadata only: CMake has just done the work that the wheel build would repeat. Done again only when the metadata changes.
registered=$build/.registered-$(printf '%s\n' "$python" "$(cat pyproject.toml)" "$(grep ^__version__ torch_tile/__init__.py)" "$torch" | cksum | cut -d' ' -f1)
if [ ! -e "$registered" ]; then
  say "registering the package"
  "$python" -m pip --disable-pip-version-check install --quiet --no-build-isolation --no-deps \
    --config-settings=wheel.cmake=false --editable .
  rm -f "$build"/.registered-*
  touch "$registered"
fi
