"""A part of an X11 screen as a source, through mss.

FFmpeg's x11grab, at hand with PyAV, would not do: when the X server is gone it gives the last picture again and again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Event

from mss import MSS, ScreenShotError

from daemon.capture.pace import Pace
from daemon.capture.raw import Plane, RawPicture
from daemon.capture.source import SourceAbsent, SourceFailed
from daemon.config import ConfigError
from daemon.sources import Screen


class ScreenGrab:
    """Grabs a part of a screen at the rate of ``fps``; the mouse pointer is left out.

    Args:
        table: the source's table.
        stop: ends the waiting.

    Raises:
        ConfigError: no display is named, neither here nor by ``$DISPLAY``.
        SourceAbsent: no X server answers there.
        SourceFailed: the screen is smaller than that.
    """

    note = ""

    def __init__(self, table: Screen, stop: Event) -> None:
        self._table, self._stop, self._pace = table, stop, Pace(stop)
        self._period_ns = round(1e9 / table.fps)
        self._display = table.display or os.environ.get("DISPLAY", "")
        if not self._display:
            raise ConfigError("display: expected a display such as ':0', here or as $DISPLAY")
        self._part = {"left": table.left, "top": table.top, "width": table.width, "height": table.height}
        self._server = _connect(self._display)
        screen = self._server.monitors[0]
        if table.left + table.width > screen["width"] or table.top + table.height > screen["height"]:
            self._server.close()
            part = f"{table.width}x{table.height} at {table.left}, {table.top}"
            raise SourceFailed(f"display {self._display}: has {screen['width']}x{screen['height']}, not {part}")

    @property
    def late(self) -> int:
        """Pictures that came after they were due."""
        return self._pace.late

    def read(self) -> RawPicture | None:
        """The screen as it is when the next picture is due."""
        now_ns = self._pace.wait(self._period_ns)
        if self._stop.is_set():
            return None
        try:
            grabbed = self._server.grab(self._part)
        except Exception as error:  # a server that has gone is an assertion there
            raise SourceFailed(f"display {self._display}: lost: {error or type(error).__name__}") from None
        planes = (Plane(memoryview(grabbed.raw), 4 * grabbed.width),)
        return RawPicture("bgrx", grabbed.width, grabbed.height, planes, now_ns)

    def close(self) -> None:
        """Leave the X server."""
        with suppress(ScreenShotError):  # it may have gone first
            self._server.close()


def screen_size(display: str) -> tuple[int, int]:
    """Width and height of a display's screen.

    Raises:
        SourceAbsent: no X server answers there.
    """
    server = _connect(display)
    screen = server.monitors[0]
    server.close()
    return screen["width"], screen["height"]


def _connect(display: str) -> MSS:
    try:
        return MSS(display=display)
    except ScreenShotError as error:
        raise SourceAbsent(f"no X server answers at display {display!r}: {error}") from None
