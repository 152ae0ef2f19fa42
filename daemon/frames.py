"""The frame ring: one writer, many readers, whole frames in a memory-mapped file, newest wins.

A slot holds one frame behind a generation number: odd while the writer is in it, even when whole. A reader checks
the generation before and after use, so an overwritten (*torn*) frame is always noticed; it never blocks the writer
and may die at any point. The file is fixed in size and really allocated at start, so a full tmpfs is an error then
and not a bus error later.

Layout, little-endian, version :data:`RING_VERSION`: one page with :data:`HEADER` and, at byte
:data:`NEWEST_AT`, the newest frame's sequence number (u64, 0 before the first); then per slot 64 bytes that
start with :data:`SLOT_FIELDS` (u64; times in ns) and the pixels, rows packed, padded to 64 bytes.

Memory order. The generation may become visible only after the pixels, and pixels may be read only between the two
looks at the generation. x86 keeps stores and loads in that order by itself, Arm does not, so both sides put a full
barrier there: :meth:`_Barrier.full` releases a lock and takes it again. Everything before a release is ordered
before it, everything after an acquire after it, and on Arm an acquire that follows a release of the same variable
is not reordered with it, so nothing crosses the pair in either direction. (Acquire first, release second would not
do: both neighbours may move in between.) The 64-bit stores themselves are aligned, hence single.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from daemon.views import PixelFormat, View

if TYPE_CHECKING:
    from daemon.pixels import Pixels

RING_VERSION = 1
MAGIC = b"RFXRING\0"
HEADER = struct.Struct("<8sIIQIIIIQQ")
HEADER_FIELDS = ("magic", "version", "slots", "epoch", "width", "height", "format", "channels", "row", "step")
"""``format`` is the index into :data:`FORMATS`, ``row`` the bytes of a row, ``step`` those from slot to slot."""
SLOT_FIELDS = ("generation", "seq", "sensor_ns")
"""The 64-bit words at the start of a slot's :data:`SLOT_HEADER` bytes."""
NEWEST_AT = 1024
PAGE = 4096
SLOT_HEADER = 64
_LOOKS = 100
"""A writer overtakes a reader's look at the newest frame once in a while, never this often in a row."""
FORMATS: tuple[PixelFormat, ...] = ("gray8", "rgb24")


class RingError(OSError):
    """A ring that cannot be made or read; the text says where, what was needed and what there is."""


class Frame(NamedTuple):
    """Where a frame lies: its sequence number (from 1), slot and sensor time (CLOCK_MONOTONIC, ns)."""

    seq: int
    slot: int
    sensor_ns: int


class _Barrier:
    """A full memory barrier for the process that holds it; see the module's text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def full(self) -> None:
        self._lock.release()
        self._lock.acquire()


class _Mapping:
    """What writer and readers share: the mapped file as 64-bit words and as pixel arrays."""

    def __init__(self, memory: mmap.mmap, view: View, slots: int) -> None:
        self.view, self.slots = view, slots
        self._stride = slot_bytes(view)
        self._memory = memory
        self._words = memoryview(memory).cast("Q")
        self._barrier = _Barrier().full

    def _bytes(self, slot: int) -> memoryview:
        begin = PAGE + slot * self._stride + SLOT_HEADER
        return memoryview(self._memory)[begin : begin + self.view.nbytes]

    @functools.cached_property
    def _pixels(self) -> list[Pixels]:
        """The slots' pixels. Who only asks which frames there are, as infer does, never loads numpy."""
        import numpy as np

        return [np.frombuffer(self._bytes(slot), np.uint8).reshape(self.view.shape) for slot in range(self.slots)]

    def _word(self, slot: int) -> int:
        return (PAGE + slot * self._stride) // 8

    def _unmap(self) -> None:
        """Drop the mapping. Arrays handed out keep the memory alive; it goes when the last of them does."""
        self.__dict__.pop("_pixels", None)
        self._words.release()


class RingWriter(_Mapping):
    """Creates a ring file and fills it.

    Args:
        path: file to create; an older ring of this name is replaced at once and whole.
        view: shape and format of every frame.
        slots: frames kept.
        epoch: number that tells this ring from earlier ones of the same path.

    Raises:
        RingError: the file cannot be created or does not fit.
    """

    def __init__(self, path: Path, view: View, slots: int, epoch: int) -> None:
        self.path, self.epoch = path, epoch
        super().__init__(_create(path, view, slots, epoch), view, slots)
        self._newest = 0

    def write(self, frame: Pixels, sensor_ns: int) -> int:
        """Copy ``frame`` (``uint8``, ``view.shape``) into the next slot and return its sequence number.

        Raises:
            ValueError: wrong shape or dtype.
        """
        if frame.shape != self.view.shape or frame.dtype != "uint8":
            raise ValueError(
                f"ring {self.path.name}: expected uint8 {self.view.shape}, got {frame.dtype} {frame.shape}"
            )
        seq = self._newest + 1
        slot = seq % self.slots
        word, words = self._word(slot), self._words
        words[word] = 2 * seq - 1
        self._barrier()
        words[word + 1] = seq
        words[word + 2] = sensor_ns
        self._pixels[slot][...] = frame
        self._barrier()
        words[word] = 2 * seq
        self._barrier()
        self._newest = words[NEWEST_AT // 8] = seq
        return seq

    def close(self) -> None:
        """Remove the file; readers that have it mapped keep their frames."""
        self._unmap()
        self.path.unlink(missing_ok=True)


class RingReader(_Mapping):
    """Maps an existing ring.

    Raises:
        RingError: no ring there, or not one this build can read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        memory, view, slots, self.epoch = _open(path)
        super().__init__(memory, view, slots)

    def newest(self) -> Frame | None:
        """The newest whole frame, or None before the first."""
        for _ in range(_LOOKS):
            frame = self.find(self._words[NEWEST_AT // 8])
            if frame is not None and frame.seq > 0:
                return frame
        return None

    def find(self, seq: int) -> Frame | None:
        """Frame ``seq`` if it is still in the ring."""
        slot = seq % self.slots
        word, words = self._word(slot), self._words
        if words[word] != 2 * seq:
            return None
        self._barrier()
        sensor_ns = words[word + 2]
        self._barrier()
        return Frame(seq, slot, sensor_ns) if words[word] == 2 * seq else None

    def pixels(self, frame: Frame) -> Pixels:
        """The frame in place, not copied, read-only, ``view.shape``; good only if :meth:`intact` holds after use."""
        return self._pixels[frame.slot]

    def copy(self, frame: Frame) -> bytes | None:
        """The frame's bytes, rows packed, or None if it has been written over by now."""
        data = bytes(self._bytes(frame.slot))
        return data if self.intact(frame) else None

    def intact(self, frame: Frame) -> bool:
        """Nothing has been written over ``frame`` up to now."""
        self._barrier()
        return bool(self._words[self._word(frame.slot)] == 2 * frame.seq)

    def close(self) -> None:
        """Unmap the ring."""
        self._unmap()


def slot_bytes(view: View) -> int:
    """Bytes from one slot to the next."""
    return SLOT_HEADER + -(-view.nbytes // 64) * 64


def ring_bytes(view: View, slots: int) -> int:
    """Bytes of the file of a ring."""
    size = PAGE + slots * slot_bytes(view)
    return size + -size % PAGE


def _create(path: Path, view: View, slots: int, epoch: int) -> mmap.mmap:
    size = ring_bytes(view, slots)
    fresh = path.with_name(path.name + ".new")
    try:
        with fresh.open("w+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
            memory = mmap.mmap(file.fileno(), size)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        free = os.statvfs(path.parent) if path.parent.is_dir() else None
        room = f"{free.f_bavail * free.f_frsize} bytes are free" if free else "the folder is missing"
        raise RingError(f"frame ring {path}: needs {size} bytes, {room}: {error.strerror}") from None
    row = view.nbytes // view.height
    code = FORMATS.index(view.format)
    channels = row // view.width
    HEADER.pack_into(
        memory, 0, MAGIC, RING_VERSION, slots, epoch, view.width, view.height, code, channels, row, slot_bytes(view)
    )
    fresh.replace(path)
    return memory


def _open(path: Path) -> tuple[mmap.mmap, View, int, int]:
    try:
        with path.open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise RingError(f"frame ring {path}: expected a ring file: {error}") from None
    if len(memory) < PAGE:
        raise RingError(f"frame ring {path}: {len(memory)} bytes, not a ring")
    magic, version, slots, epoch, width, height, code, _, row, step = HEADER.unpack_from(memory)
    if magic != MAGIC or version != RING_VERSION or code >= len(FORMATS):
        raise RingError(f"frame ring {path}: not a ring of version {RING_VERSION}")
    view = View(width, height, FORMATS[code])
    if row * height != view.nbytes or step != slot_bytes(view) or len(memory) < PAGE + slots * step:
        raise RingError(f"frame ring {path}: its header and its size of {len(memory)} bytes disagree")
    return memory, view, slots, epoch
