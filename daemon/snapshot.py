"""``reflexd snapshot``: what a model sees, byte for byte, out of a running daemon's frame ring, as a PNG."""

from __future__ import annotations

import os
import time
from io import BytesIO
from pathlib import Path

from daemon.config import Daemon
from daemon.frames import Frame, RingError, RingReader
from daemon.plan import load
from daemon.runtime import RuntimeFolder, lock_in, owner_of
from daemon.views import PILLOW_MODE, View
from daemon.wholefile import replace_file

WAIT_S = 2.0
"""A picture newer than the command must come within this time."""
_LOOK_EVERY_S = 0.005
_PRODUCERS = ("capture", "simulate")


class SnapshotError(Exception):
    """No picture; the text says why and what to do."""


def snapshot(folders: list[Path], source: str, agent: str | None, out: Path | None) -> str:
    """Write the next picture of a source.

    Args:
        folders: runtime folders of running daemons.
        source: source or world.
        agent: whose view of it; None if there is only one.
        out: the PNG; by default ``SOURCE.png`` or ``SOURCE-AGENT.png`` here.

    Returns:
        What was written, for people.

    Raises:
        SnapshotError: no such source, no new picture, or the file cannot be written.
        ConfigError: the daemon's configuration cannot be read any more.
    """
    data, what = png(folders, source, agent)
    out = out or Path(f"{source}.png" if agent is None else f"{source}-{agent}.png")
    _write(out, data)
    return f"{out}: {what}"


def png(folders: list[Path], source: str, agent: str | None) -> tuple[bytes, str]:
    """The next picture of a source as a PNG with the frame's number and time in it, and what it shows, for people.

    Raises:
        SnapshotError: no such source, or no new picture.
        ConfigError: the daemon's configuration cannot be read any more.
    """
    ring = _ring(folders, source, agent)
    try:
        reader = RingReader(ring)
    except RingError as error:
        raise SnapshotError(str(error)) from None
    frame, data = _next(reader, source)
    age_ms = (time.monotonic_ns() - frame.sensor_ns) / 1e6
    view = ring.name.removeprefix(f"{source}.")
    return _encoded(reader.view, frame, data), f"{view} of {source}, frame {frame.seq}, taken {age_ms:.0f} ms ago"


def _ring(folders: list[Path], source: str, agent: str | None) -> Path:
    found = [(folder, pid) for folder in folders if (pid := _producer(folder, source))]
    if not found:
        where = ", ".join(map(str, folders)) or "no daemon of this user runs (or elsewhere: --config, --runtime)"
        raise SnapshotError(f"{source}: no such source is running in {where}; start it with reflexd run CONFIG")
    if len(found) > 1:
        several = ", ".join(str(folder) for folder, _ in found)
        raise SnapshotError(f"{source}: several daemons have it, choose one with --runtime: {several}")
    folder, pid = found[0]
    if agent is not None:
        return _ring_of_agent(folder, pid, source, agent)
    rings = sorted((folder / "rings").glob(f"{source}.*"))
    if len(rings) == 1:
        return rings[0]
    views = ", ".join(ring.name.removeprefix(f"{source}.") for ring in rings) or "none"
    raise SnapshotError(f"{source}: its views are {views}: choose one with --as AGENT")


def _producer(folder: Path, source: str) -> int:
    """Pid of the process that makes this source's pictures, 0 if there is none."""
    for kind in _PRODUCERS:
        pid = owner_of(lock_in(folder, f"{kind}@{source}"))
        if pid is not None:
            return pid
    return 0


def _ring_of_agent(folder: Path, pid: int, source: str, agent: str) -> Path:
    """The ring an agent's model reads, by the configuration its source was started with."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        plan = load(Path(os.fsdecode(words[-3])))
    except (OSError, IndexError) as error:
        raise SnapshotError(f"{source}: cannot see how process {pid} was started: {error}") from None
    looking = [name for name, config in plan.config.agents.items() if config.source == source]
    if agent not in looking:
        raise SnapshotError(f"{agent}: no agent of this name looks at {source}; those who do: {', '.join(looking)}")
    runtime = RuntimeFolder(Daemon(name="any", runtime=str(folder), state=str(folder)))
    return runtime.ring(source, plan.manifests[agent].frame.view)


def _next(reader: RingReader, source: str) -> tuple[Frame, bytes]:
    """The first whole frame taken after now."""
    since_ns = time.monotonic_ns()
    newest = None
    while time.monotonic_ns() - since_ns < WAIT_S * 1e9:
        newest = reader.newest()
        if newest is not None and newest.sensor_ns > since_ns:
            data = reader.copy(newest)
            if data is not None:
                return newest, data
        time.sleep(_LOOK_EVERY_S)
    last = "there was none yet" if newest is None else f"the last is {(since_ns - newest.sensor_ns) / 1e9:.1f} s old"
    raise SnapshotError(f"{source}: no new picture in {WAIT_S:g} s, {last}: see the daemon's log")


def _encoded(view: View, frame: Frame, data: bytes) -> bytes:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    words = PngInfo()
    words.add_text("sequence", str(frame.seq))
    words.add_text("sensor_ns", str(frame.sensor_ns))
    file = BytesIO()
    Image.frombytes(PILLOW_MODE[view.format], (view.width, view.height), data).save(file, "PNG", pnginfo=words)
    return file.getvalue()


def _write(out: Path, data: bytes) -> None:
    """Write the file whole or not at all."""
    try:
        replace_file(out, data)
    except OSError as error:
        raise SnapshotError(f"{out}: cannot write there: {error.strerror or error}") from None
