"""Configuration of lit: FileCheck tests over tile-opt and tile-compile. `lit tests/lit [--param build_dir=build]`."""

import os
import shutil
from pathlib import Path

import lit.formats

root = Path(__file__).resolve().parents[2]
build = Path(lit_config.params.get("build_dir", root / "build")).resolve()  # noqa: F821
cache = build / "CMakeCache.txt"
if not cache.exists():
    lit_config.fatal(f"no build in {build}: run make build, or name one with --param build_dir=")  # noqa: F821


def cmake_value(name: str) -> str:
    """A value of the build's CMake cache, or nothing."""
    for line in cache.read_text().splitlines():
        key, _, value = line.partition("=")
        if key.split(":")[0] == name:
            return value
    return ""


llvm = Path(cmake_value("TORCH_TILE_LLVM_DIR") or "/usr/lib/llvm-22")

config.name = "torch-tile"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir", ".test"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
config.test_source_root = str(root / "tests" / "lit")  # noqa: F821
config.test_exec_root = str(build / "lit")  # noqa: F821
os.makedirs(config.test_exec_root, exist_ok=True)  # noqa: F821

config.environment["PATH"] = os.pathsep.join([str(build / "bin"), str(llvm / "bin"), os.environ["PATH"]])  # noqa: F821
config.environment["FILECHECK_OPTS"] = "--dump-input=fail --allow-unused-prefixes=false"  # noqa: F821
# Memory that was freed is overwritten, so that who reads it fails each time; what a thread's cache has would not be.
config.environment["MALLOC_PERTURB_"] = "165"  # noqa: F821
config.environment["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0"  # noqa: F821
config.substitutions.append(("%build", str(build)))  # noqa: F821

# A test that hangs is a failure; psutil is what lit needs to notice.
config.maxIndividualTestTime = 120  # noqa: F821

cuda_bin = [Path(home) / "bin" for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if home]
ptxas = shutil.which("ptxas") or next(
    (str(folder / "ptxas") for folder in cuda_bin if (folder / "ptxas").exists()), None
)
if ptxas:
    config.available_features.add("ptxas")  # noqa: F821
# A check of PTX that does nothing where there is no ptxas: what the rest of a test says still holds.
config.substitutions.append(("%ptxas", f"{ptxas} -o %t.cubin" if ptxas else "true"))  # noqa: F821
if any(Path("/dev").glob("nvidia[0-9]*")):
    config.available_features.add("gpu")  # noqa: F821
config.available_features.add(os.uname().machine)  # noqa: F821
