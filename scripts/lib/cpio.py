"""Packs a folder as the compressed cpio archive that Linux unpacks at its start: cpio.py FOLDER FILE."""

import gzip
import os
import sys


def member(number: int, name: str, mode: int, data: bytes) -> bytes:
    """One file or folder in the format `newc`: fields in hexadecimal, then name and data, each padded to four bytes."""
    encoded = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def archive(folder: str) -> bytes:
    """All of a folder, folders before their contents."""
    members = []
    for path, folders, files in os.walk(folder):
        folders.sort()
        relative = os.path.relpath(path, folder)
        if relative != ".":
            members.append((relative, 0o040755, b""))
        for name in sorted(files):
            place = os.path.join(path, name)
            with open(place, "rb") as file:
                members.append((os.path.relpath(place, folder), 0o100755, file.read()))
    members.append(("TRAILER!!!", 0, b""))
    return b"".join(member(number, *parts) for number, parts in enumerate(members, 1))


if __name__ == "__main__":
    with gzip.open(sys.argv[2], "wb", compresslevel=1) as out:
        out.write(archive(sys.argv[1]))
