"""A bare loop over the same program: what an inference costs with no daemon around it. Prints ms per forward."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from executorch.runtime import Runtime

from daemon.package import MODEL_FILE, read_manifest


def main(package: Path, seconds: float) -> None:
    manifest = read_manifest(package)
    method = Runtime.get().load_program(package / MODEL_FILE).load_method("forward")
    assert method is not None
    rng = np.random.default_rng(0)
    frames = torch.from_numpy(rng.integers(0, 255, manifest.frame.shape, np.uint8))
    times = []
    due = time.monotonic()
    for _ in range(round(seconds * 30)):
        due += 1 / 30
        time.sleep(max(0.0, due - time.monotonic()))
        began = time.perf_counter()
        method.execute([frames])
        times.append((time.perf_counter() - began) * 1e3)
    print(json.dumps(times[15:]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
