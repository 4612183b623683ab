#!/usr/bin/env bash
# oldest_torch.sh: compiles the runtime's sources against the headers of the oldest torch that is supported, without
# making anything. Two minutes; a header that a newer torch includes by the way is missed by nothing else before wheels.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
version=2.11.0
headers=$build/torches/headers-$version
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [ ! -d "$headers" ]; then
  say "headers of torch $version"
  if ! "$python" -m pip --disable-pip-version-check download --quiet --no-deps --dest "$scratch" "torch==$version"; then
    say "not checked: the package index has no torch $version for this Python"
    exit 0
  fi
  "$python" - "$scratch" "$headers" <<'PYTHON'
import pathlib, shutil, sys, zipfile

scratch, headers = map(pathlib.Path, sys.argv[1:])
with zipfile.ZipFile(next(scratch.glob("*.whl"))) as wheel:
    wheel.extractall(scratch, [name for name in wheel.namelist() if name.startswith("torch/include/")])
headers.parent.mkdir(parents=True, exist_ok=True)
shutil.move(scratch / "torch" / "include", headers)
PYTHON
fi

say "sources against torch $version"
flags=(-std=c++20 -fsyntax-only -w -fopenmp -DTORCH_TILE_HAS_FX '-DTORCH_TILE_VERSION="0"' -Icsrc -Icsrc/runner/include
  "-I$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')"
  -isystem "$headers" -isystem "$headers/torch/csrc/api/include")
find csrc/runtime csrc/support csrc/artifact csrc/runner/torch csrc/runner/DlType.cpp -name '*.cpp' -print0 |
  xargs -0 -P "$jobs" -n 1 "${CXX:-c++}" "${flags[@]}" # LLVM's clang has no omp.h of its own
