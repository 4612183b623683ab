"""The torch that the built extension will run with: the one of the environment that is installed into.

Printed for CMake: its folder and version. For scikit-build-core: what the package depends on. pip builds in an
environment of its own, from which this one's packages are not seen; a Python without pip's settings sees them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OLDEST = (2, 11)
_FIND = """
import importlib.util, sys
spec = importlib.util.find_spec("torch")
sys.exit(not (spec and spec.origin) or print(spec.origin))
"""


def find() -> tuple[Path, str]:
    """Its folder and version, without importing it."""
    if named := os.environ.get("TORCH_TILE_TORCH"):
        folder: Path | None = Path(named)
    else:
        folder = None
        for flags in ([], ["-E"]):
            done = subprocess.run([sys.executable, *flags, "-c", _FIND], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                folder = Path(done.stdout.strip()).parent
                break
    if folder is None:
        sys.exit(
            f"torch is missing for {sys.executable}: torch-tile is built for the torch it will run with. Install "
            "torch 2.11 or newer first (pip install torch), then run pip install again in the same environment, "
            "not through a tool that builds in an environment without it"
        )
    values: dict[str, str] = {}
    exec((folder / "version.py").read_text(), values)
    version = str(values["__version__"])
    if tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < OLDEST:
        sys.exit(f"torch 2.11 or newer expected, got {version} at {folder}")
    return folder, version


def own_version() -> str:
    text = Path(__file__).resolve().parent.parent.joinpath("torch_tile", "__init__.py").read_text()
    return text.split('__version__ = "')[1].split('"')[0]


def dynamic_metadata(field: str, settings: dict[str, object]) -> str | list[str]:
    """The package depends on the minor version of torch that it is built for. Where it comes without the compiler
    library (TORCH_TILE_THIN=1), it depends on the distribution that has it, and its version names torch's, so that
    packages for several versions of torch can lie in one folder."""
    is_thin = os.environ.get("TORCH_TILE_THIN") == "1"
    own = own_version()
    if field == "version" and not is_thin:
        return own
    minor = ".".join(find()[1].split(".")[:2])
    if field == "version":
        return f"{own}+torch{minor}"
    if field != "dependencies":
        raise RuntimeError(f"expected the field version or dependencies, got {field}")
    return ["numpy", f"torch=={minor}.*", *([f"torch-tile-compiler=={own}"] if is_thin else [])]


if __name__ == "__main__":
    print(*find(), sep="\n")
