"""python -m torch_tile: the disk cache, versions, the settings in force."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from torch_tile import config


def _cache_folder() -> Path | None:
    folder = config.resolve().cache_dir()
    return Path(folder) if folder else None


def _cache(arguments: argparse.Namespace) -> int:
    folder = _cache_folder()
    if folder is None:
        print("the disk cache is off")
        return 0
    files = [p for p in folder.rglob("*") if p.is_file()] if folder.is_dir() else []
    if arguments.action == "clear":
        for entry in list(folder.iterdir()) if folder.is_dir() else []:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        print(f"removed {len(files)} files from {folder}")
        return 0
    print(f"folder  {folder}\nfiles   {len(files)}\nbytes   {sum(p.stat().st_size for p in files)}")
    return 0


def _version(_: argparse.Namespace) -> int:
    import torch

    from torch_tile import _C, __version__

    print(f"torch_tile {__version__}\ntorch {torch.__version__}\npython {sys.version.split()[0]}")
    try:
        print(_C.version()["compiler"])
    except Exception as error:  # the library may be missing, and this command is how one finds out
        print(f"compiler library: {error}")
        return 1
    return 0


def _env(_: argparse.Namespace) -> int:
    for name, kind, _default, variables, doc in config.table():
        print(f"{name} = {config.get(name)!r}  ({kind}; {variables})\n    {doc}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="torch_tile", description=__doc__)
    commands = parser.add_subparsers(required=True)
    cache = commands.add_parser("cache", help="show or clear the disk cache")
    cache.add_argument("action", choices=("info", "clear"))
    cache.set_defaults(run=_cache)
    commands.add_parser("version", help="versions of everything in use").set_defaults(run=_version)
    commands.add_parser("env", help="every setting, its value and its environment variables").set_defaults(run=_env)
    arguments = parser.parse_args(argv)
    result: int = arguments.run(arguments)
    return result
