"""Whether what a camera delivers is alive: stamps that advance on the right clock, pictures that differ. Pure.

A return code says nothing: drivers give the last buffer again on a time-out, or a stamp of another clock.
"""

from __future__ import annotations

import zlib

from daemon.capture.raw import BadPicture, Refusal
from daemon.pixels import Pixels

FUTURE_NS = 10_000_000
"""A stamp may lie ahead of this process's own look at the same clock by this much."""
OLD_NS = 2_000_000_000
"""A picture older than this is of no use to any loop; it comes from another clock or has queued."""
SETTLE_FRAMES = 3
"""Good pictures in a row before a camera that was just opened, or at fault, counts again."""
BEHIND_PERIODS = 1.5
"""A picture that is older than the youngest ever was by this many periods has waited."""
_SAMPLE_ROWS = 4


class Watch:
    """Looks at every picture of one source.

    Args:
        frozen_frames: of a camera: refuse a picture that has come this often in a row, 0 for never. None if the source
            is no camera: its pictures may repeat, and count from the first.
    """

    def __init__(self, frozen_frames: int | None) -> None:
        self._settle_frames = 0 if frozen_frames is None else SETTLE_FRAMES
        self._frozen_frames = frozen_frames or 0
        self._last_ns = 0
        self._size: tuple[int, ...] = ()
        self._sample = b""
        self._digest: int | None = None
        self._same = 1
        self._settling = self._settle_frames

    def opened(self) -> None:
        """The source was opened, anew perhaps: its pictures may have another size, and it has to settle."""
        self._size = ()
        self.settle()

    def settle(self) -> None:
        """The source was at fault: some good pictures are needed before it counts again."""
        self._settling = self._settle_frames

    def stamp(self, sensor_ns: int, now_ns: int) -> None:
        """Look at a sensor time, CLOCK_MONOTONIC.

        Raises:
            BadPicture: ``repeated``, ``backward``, ``future`` or ``old``.
        """
        last_ns = self._last_ns
        if sensor_ns > now_ns + FUTURE_NS:
            ahead_s = (sensor_ns - now_ns) / 1e9
            raise self._bad("future", f"stamped {ahead_s:.3g} s in the future: not the monotonic clock")
        if sensor_ns < now_ns - OLD_NS:
            raise self._bad("old", f"stamped {(now_ns - sensor_ns) / 1e9:.3g} s ago: another clock, or it has queued")
        self._last_ns = max(last_ns, sensor_ns)
        if sensor_ns == last_ns:
            raise self._bad("repeated", "its sensor time is that of the picture before")
        if sensor_ns < last_ns:
            raise self._bad("backward", f"its sensor time is {(last_ns - sensor_ns) / 1e6:.3g} ms before the last one")

    def content(self, pixels: Pixels) -> None:
        """Look at a picture whose stamp is good.

        Raises:
            BadPicture: ``size``, ``identical`` or ``settling``.
        """
        self._size = self._size or pixels.shape
        if pixels.shape != self._size:
            raise self._bad("size", f"shape {pixels.shape}, the first picture had {self._size}")
        if self._frozen_frames and self._repetitions(pixels) >= self._frozen_frames:
            raise self._bad("identical", f"the same picture to the last bit {self._same} times (frozen_frames)")
        if self._settling:
            self._settling -= 1
            raise BadPicture("settling", "good, but the camera has to settle first")

    def _bad(self, reason: Refusal, detail: str) -> BadPicture:
        if self._settling or reason == "identical":
            self.settle()
        return BadPicture(reason, detail)

    def _repetitions(self, pixels: Pixels) -> int:
        """How many pictures in a row are known to be this one. A few rows tell most apart; only then all is read."""
        step = max(1, len(pixels) // _SAMPLE_ROWS)
        sample, digest = pixels[step // 2 :: step].tobytes(), None
        if sample == self._sample:
            digest = zlib.crc32(pixels.data)
        self._same = self._same + 1 if digest is not None and digest == self._digest else 1
        self._sample, self._digest = sample, digest
        return self._same


class Backlog:
    """Tells pictures that have waited in a driver's queue from those that come as they are taken.

    Args:
        period_ns: of the camera.
    """

    def __init__(self, period_ns: int) -> None:
        self._slack_ns = round(BEHIND_PERIODS * period_ns)
        self._youngest_ns: int | None = None

    def has_waited(self, sensor_ns: int, now_ns: int) -> bool:
        """Look at every picture's sensor time, and now: the camera's own delay is the least age there ever was."""
        age_ns = now_ns - sensor_ns
        if self._youngest_ns is None or age_ns < self._youngest_ns:
            self._youngest_ns = age_ns
        return age_ns > self._youngest_ns + self._slack_ns


def monotonic(stamp_ns: int, monotonic_ns: int, boot_ns: int) -> int:
    """A sensor time as CLOCK_MONOTONIC.

    libcamera's documentation says CLOCK_BOOTTIME, its pipelines pass on the kernel's stamps, which are monotonic. The
    two differ by the time the device was suspended; a stamp that lies beyond now on the one is on the other.
    """
    return stamp_ns - (boot_ns - monotonic_ns) if stamp_ns > monotonic_ns else stamp_ns
