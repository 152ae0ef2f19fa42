"""Small video files of known pictures, made by PyAV's encoders."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from daemon.pixels import Pixels


def clip(
    path: Path, pictures: list[Pixels], *, rate: int = 25, codec: str = "ffv1", times: list[int] | None = None
) -> Path:
    """Write ``pictures``, uint8 RGB ``(h, w, 3)``; ``times`` are in periods of ``rate``, by default one after another.

    ``ffv1`` keeps every bit.
    """
    height, width = pictures[0].shape[:2]
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height = width, height
        stream.pix_fmt = "bgr0" if codec == "ffv1" else "yuvj422p" if codec == "mjpeg" else "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, rate)
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format=stream.pix_fmt)
            frame.pts, frame.time_base = (times or range(len(pictures)))[number], Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def numbered(count: int, width: int = 32, height: int = 24) -> list[Pixels]:
    """Pictures whose every value is their number."""
    return [np.full((height, width, 3), number, np.uint8) for number in range(count)]
