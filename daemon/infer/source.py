"""A source as infer sees it: the newest frame of one view, whatever was announced and whenever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.bus import Subscriber
from daemon.frames import Frame, RingError, RingReader
from daemon.infer.encode import Observation
from daemon.messages import FrameReady
from daemon.runtime import RuntimeFolder
from daemon.views import View

if TYPE_CHECKING:  # who has no change gate looks at no pixels, and loads no numpy
    from daemon.pixels import Pixels


class ViewReader:
    """Follows the ring of one view of a source through restarts of its writer."""

    def __init__(self, runtime: RuntimeFolder, source: str, view: View, depth: int) -> None:
        self._path = runtime.ring(source, view)
        self._depth = depth
        self._reader: RingReader | None = None
        self._last_seq = 0
        self.skipped = 0
        """Frames that were never the newest one when this reader looked."""

    def observe(self, ready: FrameReady) -> Observation | None:
        """The newest frame and those before it, or None if it has been seen or the ring is not there.

        ``ready`` is only the occasion: when readers lag behind, the ring holds newer frames than it announces.
        """
        reader = self._map(ready.epoch)
        newest = reader.newest() if reader else None
        if reader is None or newest is None or newest.seq == self._last_seq:
            return None
        if self._last_seq:
            self.skipped += newest.seq - self._last_seq - 1
        self._last_seq = newest.seq
        after = ready.after if newest.seq == ready.seq else None
        return Observation(self._path.name, reader.epoch, self._recent(reader, newest), after)

    def pixels(self, frame: Frame) -> Pixels | None:
        """A copy of a frame it has observed, or None if that has been written over."""
        reader = self._reader
        pixels = reader.pixels(frame).copy() if reader else None
        return pixels if reader and reader.intact(frame) else None

    def _recent(self, reader: RingReader, newest: Frame) -> list[Frame]:
        frames = [newest]
        for seq in range(newest.seq - 1, max(0, newest.seq - self._depth), -1):
            frame = reader.find(seq)
            if frame is None:
                break
            frames.append(frame)
        return frames

    def _map(self, epoch: int) -> RingReader | None:
        if self._reader is None or self._reader.epoch != epoch:
            try:
                self._reader = RingReader(self._path)
            except RingError:
                return None
            self._last_seq = 0
        return self._reader if self._reader.epoch == epoch else None


class SourceReader:
    """The frame topic of one source and the rings of its views; ``stall_ns`` without a frame is worth a word."""

    def __init__(self, name: str, topic: Subscriber, views: dict[str, ViewReader], stall_ns: int) -> None:
        self.name, self.topic, self.stall_ns, self._views = name, topic, stall_ns, views
        self.frames = 0
        self.last_ns = 0

    @property
    def skipped(self) -> int:
        """Frames no observation was made of, over all views."""
        return sum(view.skipped for view in self._views.values())

    def pixels(self, view: str, frame: Frame) -> Pixels | None:
        """See :meth:`ViewReader.pixels`."""
        return self._views[view].pixels(frame)

    def observe(self, now_ns: int) -> tuple[str, Observation] | None:
        """A view's name and the new observation in it, or None.

        One announcement is enough to look into the ring; those behind it are for turns in which nothing is newer.
        """
        for ready in self.topic.receive(1):
            if isinstance(ready, FrameReady) and ready.view in self._views:
                observation = self._views[ready.view].observe(ready)
                if observation is not None:
                    self.frames += 1
                    self.last_ns = now_ns
                    return ready.view, observation
        return None
