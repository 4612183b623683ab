"""python -m torch_tile cache: list, verify, prune and clear the disk cache."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from torch_tile import config

Entry = tuple[str, str, int, float, str]


def _library() -> Any:
    import torch  # noqa: F401  the extension's libraries

    from torch_tile import _C

    return _C


def _size(num_bytes: float) -> str:
    for unit in ("B", "KB", "MB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} GB"


def entry_summary(folder: str) -> str:
    """How much there is, and the limit."""
    sizes = [entry[2] for entry in _library().cache_entries(folder) if entry[1]]
    limit = config.get("cache_limit_bytes")
    return f", {len(sizes)} entries of {_size(sum(sizes))}, limit {_size(limit) if limit else 'none'}"


def layer_problems(layer: str) -> list[str]:
    """Why a folder of `cache_layers`, or a part of it, is not used."""
    if not os.path.isdir(layer):
        return ["it is no folder"]
    from torch_tile.disk_cache import of_layer

    kinds: dict[str, list[str]] = {}
    for kind, name, _bytes, _used, problem in _library().cache_entries(layer):
        if problem and not name:
            kinds.setdefault(of_layer(problem), []).append(kind)
    return [f"{', '.join(found)}: {problem}" for problem, found in kinds.items()]


def _age(used_at: float) -> str:
    seconds = max(0.0, time.time() - used_at)
    for length, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return "just now" if seconds < 60 else "a minute ago"


def _info(folder: str, _: argparse.Namespace) -> int:
    entries: list[Entry] = _library().cache_entries(folder)
    limit = config.get("cache_limit_bytes")
    there = "" if os.path.isdir(folder) else "  (not there yet)"
    print(f"folder    {folder}{there}")
    for layer in config.resolve().cache_layers():
        problems = layer_problems(layer)
        print(f"layer     {layer}{'  (not used: ' + '; '.join(problems) + ')' if problems else ''}")
    print(f"limit     {_size(limit) if limit else 'none'}")
    for kind in ("graphs", "kernels", "autograd", "language", "tuning"):
        sizes = [entry[2] for entry in entries if entry[0] == kind and entry[1]]
        print(f"{kind:9} {len(sizes)} entries, {_size(sum(sizes))}")
    for kind, name, _bytes, _used, problem in entries:
        if problem and not name:
            print(f"{kind:9} ignored: {problem}")
    return 0


def _list(folder: str, _: argparse.Namespace) -> int:
    for kind, name, num_bytes, used_at, _problem in sorted(_library().cache_entries(folder), key=lambda e: -e[3]):
        if name:
            print(f"{kind:9} {name[:16]} {_size(num_bytes):>9}  used {_age(used_at)}")
    return 0


def _leftovers(count: int, num_bytes: int) -> str:
    return f"{count} unfinished file{'s' * (count != 1)}, {_size(num_bytes)}"


def _verify(folder: str, _: argparse.Namespace) -> int:
    entries: list[Entry] = _library().cache_entries(folder, verify=True)
    problems = [entry for entry in entries if entry[4]]
    for kind, name, _bytes, _used, problem in problems:
        print(f"{folder}/{kind}{'/' + name if name else ''}: {problem}")
    print(f"{len(entries)} entries, {len(problems)} that would not be used")
    is_sound = not problems
    for layer in config.resolve().cache_layers():
        is_sound = _verify_layer(layer) and is_sound
    sizes = [num_bytes for _, num_bytes in _library().cache_leftovers(folder)]
    if sizes:
        print(f"{_leftovers(len(sizes), sum(sizes))}: `cache prune` removes what processes that ended left unfinished")
    return 0 if is_sound else 1


def _verify_layer(layer: str) -> bool:
    from torch_tile.disk_cache import of_layer

    problems = layer_problems(layer)
    for problem in problems:
        print(f"layer {layer} is not used: {problem}")
    entries: list[Entry] = [entry for entry in _library().cache_entries(layer, verify=True) if entry[1]]
    damaged = [entry for entry in entries if entry[4]]
    for kind, name, _bytes, _used, problem in damaged:
        print(f"{layer}/{kind}/{name}: {of_layer(problem)}")
    if not problems or entries:
        print(f"{len(entries)} entries, {len(damaged)} that would not be used, in layer {layer}")
    return not problems and not damaged


def _prune(folder: str, arguments: argparse.Namespace) -> int:
    limit = config.get("cache_limit_bytes") if arguments.limit_bytes is None else arguments.limit_bytes
    num_files, num_bytes, *leftovers = _library().prune_cache(folder, limit)
    print(f"removed {num_files} entries, {_size(num_bytes)}, from {folder}")
    if leftovers[0]:
        print(f"removed {_leftovers(*leftovers)}")
    return 0


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def _limit(text: str) -> int:
    match = re.fullmatch(r"(-?\d+)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a number of bytes, as 4000000000 or 4G, got {text!r}")
    number = int(match[1]) * _UNITS[match[2].upper()]
    if number < 0:
        raise argparse.ArgumentTypeError(f"expected at least 0, got {text}")
    return number


def _clear(folder: str, arguments: argparse.Namespace) -> int:
    if not arguments.yes:
        entries: list[Entry] = _library().cache_entries(folder)
        unfinished: list[tuple[str, int]] = _library().cache_leftovers(folder)
        kinds = [f"{folder}/{entry[0]}" for entry in entries] + [os.path.dirname(path) for path, _ in unfinished]
        names = ", ".join(dict.fromkeys(kinds))
        if not names:
            print(f"nothing to remove in {folder}")
            return 0
        what = f"{len(entries)} entries"
        if unfinished:
            what += f" and {_leftovers(len(unfinished), sum(size for _, size in unfinished))},"
        if sys.stdin is None or not sys.stdin.isatty():
            print(f"cache clear removes {what} of {names}: call it with --yes", file=sys.stderr)
            return 1
        if input(f"remove {what} of {names}? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing is removed")
            return 1
    num_files, num_bytes, num_leftovers, leftover_bytes, folders, left = _library().clear_cache(folder)
    print(f"removed {num_files} entries, {_size(num_bytes)}")
    if num_leftovers:
        print(f"removed {_leftovers(num_leftovers, leftover_bytes)}")
    for each in folders:
        print(f"removed {each}")
    for path, reason in left:
        print(f"left {path}: {reason}")
    return 0


_ACTIONS: dict[str, tuple[Callable[[str, argparse.Namespace], int], str]] = {
    "info": (_info, "folder, limit, and how much is there"),
    "list": (_list, "every entry, the last used first"),
    "prune": (_prune, "remove least recently used entries beyond the limit"),
    "clear": (_clear, "remove every entry; files that are not ours stay"),
    "verify": (_verify, "read every entry; fails where one would not be used"),
}


def run(arguments: argparse.Namespace) -> int:
    """Does what the arguments of `add_arguments` ask for; returns the exit code."""
    folder = config.resolve().cache_dir()
    if folder is None:
        print("the disk cache is off")
        return 0
    if os.path.lexists(folder) and not os.path.isdir(folder):
        print(f"cache: {folder} is not a folder; TORCH_TILE_CACHE_DIR names another one", file=sys.stderr)
        return 1
    return _ACTIONS[arguments.action][0](folder, arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True)
    for name, (_, doc) in _ACTIONS.items():
        action = actions.add_parser(name, help=doc, description=doc)
        if name == "clear":
            action.add_argument("--yes", action="store_true", help="do not ask")
        if name == "prune":
            action.add_argument("--limit-bytes", type=_limit, help="in place of the setting cache_limit_bytes")
    parser.set_defaults(run=run)
