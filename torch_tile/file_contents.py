"""Names for what files hold. Keys of caches are made of these, never of times or folders: a copy of the package, or the
same wheel installed elsewhere, finds the entries, and an edited file does not.
"""

from __future__ import annotations

import functools
import hashlib
import os
import struct
from collections.abc import Collection

_NOTES = 4  # PT_NOTE
_BUILD_ID = 3  # NT_GNU_BUILD_ID


def of_file(path: str) -> str:
    """Of a library the build id, which its linker computed from what it holds, and the size; otherwise a hash.

    Raises:
        OSError: the file cannot be read.
    """
    status = os.stat(path)
    return _of_version(path, status.st_ino, status.st_size, status.st_mtime_ns)


@functools.cache
def _of_version(path: str, inode: int, size: int, time: int) -> str:
    """The arguments after the path are there for the memory of the process alone: a file is read once, and again after
    it changed."""
    with open(path, "rb") as file:
        identity = _build_id(file.read(4096))
        if identity is None:
            file.seek(0)
            digest = hashlib.blake2b(digest_size=32)
            while data := file.read(1 << 20):
                digest.update(data)
            identity = digest.hexdigest()
    return f"{size} {identity}"


def _build_id(start: bytes) -> str | None:
    """From the first bytes of a file; None where it is no 64-bit ELF file, or has none there."""
    if start[:6] != b"\x7fELF\x02\x01":
        return None
    try:
        (table,) = struct.unpack_from("<Q", start, 32)
        entry_size, count = struct.unpack_from("<HH", start, 54)
        for i in range(count):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", start, table + i * entry_size)
            if kind == _NOTES and (found := _build_id_of_notes(start[offset : offset + length])):
                return found
    except (struct.error, OverflowError):  # beyond these bytes, or damaged
        pass
    return None


def _build_id_of_notes(notes: bytes) -> str | None:
    place = 0
    while place + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, place)
        content = place + 12 + (name_size + 3) // 4 * 4
        if kind == _BUILD_ID and notes[place + 12 : place + 16] == b"GNU\0" and content + size <= len(notes):
            return notes[content : content + size].hex()
        place = content + (size + 3) // 4 * 4
    return None


def of_sources(folder: str, leave_out: Collection[str] = ()) -> str:
    """A hash over the Python files of a folder and their names.

    Args:
        leave_out: folders by their names.
    """
    files = []
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    files.append(entry.path)
                elif entry.is_dir() and entry.name not in leave_out:
                    pending.append(entry.path)
    digest = hashlib.blake2b(digest_size=32)
    # One buffer: a process pays for this before its first kernel.
    buffer = memoryview(bytearray(1 << 16))
    for path in sorted(files):
        digest.update(f"{path[len(folder) :]}\n".encode())
        number = os.open(path, os.O_RDONLY)
        try:
            size = 0
            while count := os.readv(number, [buffer]):
                digest.update(buffer[:count])
                size += count
                if count < len(buffer):
                    break
        finally:
            os.close(number)
        digest.update(b"\n%d\n" % size)
    return digest.hexdigest()
