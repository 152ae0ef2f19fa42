"""From a source's table to the opened source. Each kind is imported only when it is wanted, and its library with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from daemon.capture.source import Opener, Source
from daemon.config import ConfigError
from daemon.plan import Plan
from daemon.sources import Frames, Picamera2, Screen, Synthetic, V4l2
from daemon.sources import Source as SourceTable

_MISSING = {
    "av": "PyAV, the extra video: pip install 'reflexd[video]', or apt install python3-av",
    "mss": "mss, the extra screen: pip install 'reflexd[screen]'",
    "picamera2": "the system's picamera2: apt install python3-picamera2, and an environment that sees the system's "
    "packages (python3 -m venv --system-site-packages)",
}
"""What to do when a library is not there."""


def opener(plan: Plan, name: str) -> Opener:
    """What opens source ``name``."""
    table, folder = plan.config.sources[name], plan.path.parent
    cropped = any(view.crop for view in plan.views(name))

    def open_source(stop: Event) -> Source:
        try:
            return _open(table, folder, not cropped, stop)
        except ConfigError as error:
            raise ConfigError(f"{plan.path}: sources.{name}.{error}") from None
        except ImportError as error:
            raise ConfigError(f"{plan.path}: sources.{name}: {unusable(error)}") from None

    return open_source


@contextmanager
def importing(library: str) -> Iterator[None]:
    """Whatever a library raises while it is imported is an ImportError.

    One that was compiled for another numpy raises ValueError, one that does not fit its other half AttributeError.
    """
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        raise ImportError(f"{type(error).__name__}: {error}", name=library) from error


def unusable(error: ImportError) -> str:
    """Why a library of a source cannot be imported, and what to do."""
    name = (error.name or "").split(".")[0]
    library = name if name in _MISSING else "picamera2"
    if isinstance(error, ModuleNotFoundError):
        return f"needs {_MISSING[library]} ({error})"
    return f"{library} is there and does not load, as after an upgrade of one of its parts: {error}"


def _open(table: SourceTable, folder: Path, may_shrink: bool, stop: Event) -> Source:
    if isinstance(table, Synthetic):
        from daemon.capture.synthetic import SyntheticCamera

        return SyntheticCamera(table)
    if isinstance(table, Frames):
        from daemon.capture.frames import FrameFolder

        return FrameFolder(table, folder / table.path)
    if isinstance(table, V4l2):
        with importing("av"):
            from daemon.capture.v4l2 import V4l2Camera, open_device

        return V4l2Camera(table, open_device(table), stop)
    if isinstance(table, Picamera2):
        with importing("picamera2"):
            from daemon.capture.picamera2 import PiCamera

        return PiCamera(table, may_shrink, stop)
    if isinstance(table, Screen):
        with importing("mss"):
            from daemon.capture.screen import ScreenGrab

        return ScreenGrab(table, stop)
    with importing("av"):
        from daemon.capture.video import VideoFile

    return VideoFile(table, folder / table.path)
