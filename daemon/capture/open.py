"""From a source's table to the opened source. Each kind is imported only when it is wanted, and its library with it."""

from __future__ import annotations

from pathlib import Path
from threading import Event

from daemon.capture.source import Opener, Source
from daemon.config import ConfigError
from daemon.plan import Plan
from daemon.sources import Frames, Synthetic
from daemon.sources import Source as SourceTable


def opener(plan: Plan, name: str) -> Opener:
    """What opens source ``name``."""

    def open_source(stop: Event) -> Source:
        try:
            return _open(plan.config.sources[name], plan.path.parent, stop)
        except ConfigError as error:
            raise ConfigError(f"{plan.path}: sources.{name}.{error}") from None

    return open_source


def _open(table: SourceTable, folder: Path, stop: Event) -> Source:
    if isinstance(table, Synthetic):
        from daemon.capture.synthetic import SyntheticCamera

        return SyntheticCamera(table, stop)
    if isinstance(table, Frames):
        from daemon.capture.frames import FrameFolder

        return FrameFolder(table, folder / table.path, stop)
    try:
        from daemon.capture.video import VideoFile
    except ModuleNotFoundError as error:
        kind = type(table).__struct_config__.tag
        raise ConfigError(f"kind = {kind!r}: needs PyAV: pip install 'reflexd[video]' ({error})") from None
    return VideoFile(table, folder / table.path, stop)
