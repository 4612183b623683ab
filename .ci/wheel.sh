#!/usr/bin/env bash
# Builds the wheel as `pip install .` does, installs it into an empty virtual environment that sees this Python's torch and nothing of
# the working copy, and compiles a function from another folder without importing the package.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
largest=$((64 << 20)) # bytes of the compiler library
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say "building the wheel"
# The build's compiler: scikit-build-core would call it by another name, and ccache tells them apart.
export CC=$cc CXX=$cxx
CMAKE_BUILD_PARALLEL_LEVEL=$jobs "$python" -m pip --disable-pip-version-check wheel --quiet --no-build-isolation --no-deps \
  --config-settings=cmake.define.TORCH_TILE_LLVM_DIR="$llvm" --wheel-dir "$scratch" .
wheel=$(echo "$scratch"/*.whl)

say "reading $(basename "$wheel"), $(du -h "$wheel" | cut -f1)"
"$python" - "$wheel" "$largest" <<'PY'
import fnmatch, pathlib, sys, zipfile

headers = [path.relative_to("csrc/runner").as_posix() for path in pathlib.Path("csrc/runner/include").rglob("*.h*")]
# What programs without Python are built with and run.
RUNNER = [
    "libtorch_tile_runtime.so", "libtorch_tile_runtime_torch.so", *headers,
    "cmake/TorchTileConfig.cmake", "cmake/TorchTileConfigVersion.cmake",
]

wheel = zipfile.ZipFile(sys.argv[1])
sizes = {info.filename: info.file_size for info in wheel.infolist()}
library = "torch_tile/libtorch_tile_compiler.so"
sources = {path.as_posix() for path in pathlib.Path("torch_tile").rglob("*") if path.suffix in (".py", ".pyi", ".typed")}
runner = {f"torch_tile/{name}" for name in RUNNER}
missing = [name for name in sorted({library, *sources, *runner} - sizes.keys())]
if not fnmatch.filter(sizes, "torch_tile/_C.*.so"):
    missing.append("torch_tile/_C.*.so")
if missing:
    sys.exit(f"not in the wheel: {', '.join(missing)}")
if strangers := [name for name in sizes if not name.startswith(("torch_tile/", "torch_tile-"))]:
    sys.exit(f"does not belong in the wheel: {', '.join(strangers)}")
if sizes[library] > int(sys.argv[2]):
    sys.exit(f"{library} is larger than {sys.argv[2]} bytes: {sizes[library]}")
wheel.extract(library, pathlib.Path(sys.argv[1]).parent)
PY
sections=$(LC_ALL=C readelf --section-headers --wide "$scratch/torch_tile/libtorch_tile_compiler.so")
if [[ $sections = *" .symtab "* ]]; then
  die "torch_tile/libtorch_tile_compiler.so is not stripped"
fi

say "installing and using it"
# The environment sees this Python's packages through links, except for ours: a path file to them would bring our entry point along.
"$python" -m venv --without-pip "$scratch/venv"
mkdir "$scratch/packages" "$scratch/elsewhere"
"$python" - "$scratch/packages" <<'PY'
import pathlib, sys

for folder in reversed(sys.path):
    if folder.endswith("-packages"):
        for entry in pathlib.Path(folder).iterdir():
            link = pathlib.Path(sys.argv[1], entry.name)
            if "torch_tile" not in entry.name and entry.suffix != ".pth":
                link.unlink(missing_ok=True)
                link.symlink_to(entry)
PY
fresh=$scratch/venv/bin/python
echo "$scratch/packages" > "$("$fresh" -c "import sysconfig; print(sysconfig.get_path('purelib'))")/packages.pth"
"$python" -m pip --disable-pip-version-check --python "$fresh" install --quiet --no-deps --no-index "$wheel"
cd "$scratch/elsewhere"
cat > use.py <<'PY'
import sys

import torch


def function(x, w):
    return torch.softmax(torch.nn.functional.gelu(x @ w), -1).sum(0)


x, w = torch.randn(9, 33), torch.randn(33, 65, requires_grad=True)
result = torch.compile(function, backend="tile", options={"strict": True})(x, w)
torch.testing.assert_close(result, function(x, w))
result.square().sum().backward()
print(sys.modules["torch_tile"].__file__)
PY
place=$(env -u PYTHONPATH TORCH_TILE_CACHE_DIR="$scratch/cache" "$fresh" -W error::UserWarning use.py)
[[ $place = "$scratch"/venv/* ]] || die "used $place, not the wheel"
env -u PYTHONPATH "$scratch/venv/bin/torch-tile" version
listed=$(env -u PYTHONPATH "$scratch/venv/bin/tile-compile" --help)
[[ $listed = *--emit* ]] || die "tile-compile --help does not list --emit"
say "the wheel works"
