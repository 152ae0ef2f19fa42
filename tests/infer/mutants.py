"""Damaged copies of a package; hashes are pinned anew each time, so that the damage gets past them.

``python -m tests.infer.mutants PACKAGE N SEED`` checks them as the Python worker does, each in a process of its own:
the runtime takes two seconds to import, so it is imported once and every check is forked from there. Prints one JSON
line per mutant.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from daemon.infer import verify_child
from tests.packages import pin_hashes

CHECK_S = 20.0


def damage(data: bytearray, rng: random.Random) -> str:
    """Spoil a program in one of five ways; returns which."""
    kind = rng.choice(["bit", "table", "cut", "noise", "zeros"])
    at = rng.randrange(8, len(data))
    if kind == "bit":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "table":  # most of the structure is at the front
        data[rng.randrange(8, 1500)] = rng.choice([0, 1, 127, 128, 255])
    elif kind == "cut":
        del data[at:]
    elif kind == "noise":
        data[at : at + 16] = rng.randbytes(len(data[at : at + 16]))
    else:
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    return f"{kind} at {at}"


def check(package: Path) -> tuple[str, str]:
    """Run the check in a fork; returns ("ok" | "refused" | "SIG…" | "timeout" | "status …", detail)."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(write_fd, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            sys.argv = ["verify_child", str(package)]
            verify_child.main()
        finally:
            os._exit(70)  # the fork never runs on into the caller's loop
    os.close(write_fd)
    answered = bool(select.select([read_fd], [], [], CHECK_S)[0])
    answer = os.read(read_fd, 65536) if answered else b""
    os.close(read_fd)
    if not answered:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not answered:
        return "timeout", ""
    if status < 0:
        return signal.Signals(-status).name, ""
    if not answer:
        return f"status {status}", ""
    return ("ok" if status == 0 else "refused"), json.loads(answer)["detail"]


def main(good: Path, count: int, seed: int) -> None:
    import daemon.infer.runtime  # noqa: F401 - the slow import, before the forks

    rng = random.Random(seed)
    program = (good / "model.pte").read_bytes()
    with tempfile.TemporaryDirectory() as name:
        package = Path(name) / "mutant"
        shutil.copytree(good, package)
        for _ in range(count):
            data = bytearray(program)
            what = damage(data, rng)
            (package / "model.pte").write_bytes(data)
            pin_hashes(package)
            outcome, detail = check(package)
            print(json.dumps({"damage": what, "same": data == program, "outcome": outcome, "detail": detail}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
