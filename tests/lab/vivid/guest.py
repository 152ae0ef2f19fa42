"""What is done in the machine, with its camera; what came of it goes to ``/mnt/results``, and is judged outside."""

from __future__ import annotations

import json
import subprocess
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from daemon.capture.convert import Converter
from daemon.capture.raw import RawPicture
from daemon.capture.v4l2 import V4l2Camera, open_device
from daemon.sources import V4l2
from tests.lab.vivid.watched import CAMERA, FPS, Watched, set_controls

RESULTS = Path("/mnt/results")
FORMATS = ("yuyv", "nv12", "mjpeg")
PICTURES = 20
STEADY_S = 60.0
STAMPS, FUTURE_STAMPS = "timestamp_source=1", "timestamp_source=0"
"""Vivid stamps the beginning of a picture; or its end, nine tenths of a period before that comes: its default."""
BUS = Path("/sys/bus/platform/drivers/vivid")
"""Where a device is taken from its driver, as by a hand that pulls the plug, and given back."""
STREAMER = ("v4l2-ctl", "-d", str(CAMERA), "--stream-mmap", "--stream-count=0")


def main() -> None:
    """Everything, one part after the other; a part that breaks leaves its trace in the place of its results."""
    parts: dict[str, Callable[[], Any]] = {
        "sources": lambda: _reflexd("sources"),
        "formats": lambda: {form: look(form) for form in FORMATS},
        "another size": lambda: {form: look(form, width=500) for form in ("yuyv", "nv12")},
        "run": run,
    }
    set_controls(STAMPS)
    results = {}
    for name, part in parts.items():
        try:
            results[name] = part()
        except Exception:
            results[name] = {"broken": traceback.format_exc()}
        (RESULTS / "results.json").write_text(json.dumps(results, indent=1))


def look(form: str, width: int = 640) -> dict[str, Any]:
    """Some pictures straight from the source, the last one kept; or why there are none."""
    table = V4l2(device=str(CAMERA), format=form, width=width, height=480, fps=FPS)  # type: ignore[arg-type]
    try:
        with closing(V4l2Camera(table, open_device(table), Event())) as camera:
            pictures = [(_picture(camera), time.monotonic_ns()) for _ in range(PICTURES)]
            last = pictures[-1][0]
            np.save(RESULTS / f"{form}.npy", Converter().pixels(last))
    except OSError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    stamps = [(picture.sensor_ns, now_ns) for picture, now_ns in pictures]
    return {"format": last.format, "stamps": stamps, "late": camera.late}


def _picture(camera: V4l2Camera) -> RawPicture:
    raw = camera.read()
    assert raw is not None
    return raw


def run() -> dict[str, Any]:
    """The whole daemon: a start while somebody else has the camera, a steady minute, then one fault after another."""
    steps: dict[str, Any] = {}
    holder = subprocess.Popen(STREAMER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    with Watched(Path("/mnt/lab.toml"), RESULTS) as daemon:
        daemon.until(lambda: "is busy" in daemon.said(), 60)
        steps["busy"] = daemon.step(lambda: _end(holder))
        steps["steady"] = daemon.step(lambda: daemon.listen(STEADY_S))
        for name, fault in FAULTS.items():
            steps[name] = daemon.step(lambda fault=fault: fault(daemon))  # type: ignore[misc]
        snapshot = ("snapshot", "cam", "--config", "/mnt/lab.toml", "-o", str(RESULTS / "cam.png"))
        steps["snapshot"] = daemon.step(lambda: _reflexd(*snapshot))
    return {"holder": holder.pid, "steps": steps}


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _mirror(daemon: Watched) -> None:
    set_controls("horizontal_flip=1")
    daemon.listen(3.0)
    set_controls("horizontal_flip=0")


def _drop_some(daemon: Watched) -> None:
    set_controls("percentage_of_dropped_buffers=30")
    daemon.listen(12.0)
    set_controls("percentage_of_dropped_buffers=0")


def _spoil_one(daemon: Watched) -> None:
    set_controls("inject_v4l2_buf_flag_error=1")


def _break(daemon: Watched) -> None:
    set_controls("inject_fatal_streaming_error=1")


def _break_and_refuse(control: str) -> Callable[[Watched], None]:
    """The stream breaks, and the first attempt to open it anew fails at this call."""

    def fault(daemon: Watched) -> None:
        set_controls(f"{control}=1", "inject_fatal_streaming_error=1")

    return fault


def _freeze(daemon: Watched) -> None:
    set_controls("osd_text_mode=2")  # without the counters all pictures are the same
    daemon.until(lambda: daemon.state() == "degraded", 20)
    set_controls("osd_text_mode=0")


def _stamp_the_future(daemon: Watched) -> None:
    set_controls(FUTURE_STAMPS)
    daemon.until(lambda: daemon.state() == "degraded", 20)
    set_controls(STAMPS)


def _disconnect(daemon: Watched) -> None:
    set_controls("disconnect=1")


def _replug(daemon: Watched) -> str:
    """Out, and in again with another number: what still has the old device open keeps that number."""
    before = CAMERA.resolve()
    with CAMERA.open("rb"):
        (BUS / "unbind").write_text("vivid.0")
        daemon.until(lambda: daemon.state() == "waiting", 10)
        daemon.listen(3.0)
        (BUS / "bind").write_text("vivid.0")
        subprocess.run(["udevadm", "settle"], check=True)
        set_controls(STAMPS)
    return f"{before} {CAMERA.resolve()}"


FAULTS: dict[str, Callable[[Watched], object]] = {
    "mirror": _mirror,
    "drop some": _drop_some,
    "spoil one": _spoil_one,
    "break": _break,
    "refuse streamon": _break_and_refuse("inject_vidioc_streamon_error"),
    "refuse reqbufs": _break_and_refuse("inject_vidioc_reqbufs_error"),
    "refuse qbuf": _break_and_refuse("inject_vidioc_qbuf_error"),
    "freeze": _freeze,
    "future": _stamp_the_future,
    "disconnect": _disconnect,
    "replug": _replug,
}


def _reflexd(*arguments: str) -> str:
    done = subprocess.run(
        ["python3", "-m", "daemon.cli", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
