"""Summaries for TensorBoard: event files with numbers of the user's own (`tf.summary`)."""

from __future__ import annotations

import functools
import os
import socket
import struct
import time
from pathlib import Path

POLYNOMIAL = 0x82F63B78
"""Of CRC-32C, reflected."""
MASK_DELTA = 0xA282EAD8
"""Constant of the mask of a record's checksum (TensorFlow's `crc32c.h`)."""


class Writer:
    """Writes numbers into an event file of a folder. TensorBoard shows the folders below a model folder as runs."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        self._file = (path / name).open("ab")
        self._write(_text(3, b"brain.Event:2"))

    def scalar(self, name: str, value: float, step: int) -> None:
        """Adds a number at a step."""
        number = _text(1, name.encode()) + struct.pack("<Bf", 2 << 3 | 5, value)
        self._write(b"\x10" + _varint(step) + _text(5, _text(1, number)))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, fields: bytes) -> None:
        """Writes an event (`event.proto`) as a record, at once: a run may be killed."""
        event = struct.pack("<Bd", 1 << 3 | 1, time.time()) + fields
        length = struct.pack("<Q", len(event))
        checked = length + struct.pack("<I", _masked(length)) + event + struct.pack("<I", _masked(event))
        self._file.write(checked)
        self._file.flush()


def _text(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _masked(record: bytes) -> int:
    checksum = crc32c(record)
    return ((checksum >> 15 | checksum << 17) + MASK_DELTA) & 0xFFFFFFFF


def crc32c(record: bytes) -> int:
    """Returns the CRC-32C of bytes."""
    table = _table()
    checksum = 0xFFFFFFFF
    for byte in record:
        checksum = table[(checksum ^ byte) & 0xFF] ^ checksum >> 8
    return checksum ^ 0xFFFFFFFF


@functools.cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return tuple(table)
