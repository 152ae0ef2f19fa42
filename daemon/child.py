"""One child process: its process group, its lifeline, its output, its end."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from daemon.process import LIFELINE_VARIABLE
from daemon.table import Entry

LINES_PER_SECOND = 50
"""Lines of one child that are passed on each second; the rest is counted and left out."""
MAX_LINE_BYTES = 2048
_READ_BYTES = 64 * 1024
_READS_PER_TURN = 16
_SECOND_NS = 1_000_000_000
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
"""Unless it is set: numpy's BLAS, which no stage calls, would start a thread per core and have them spin at start."""
_NOT_FOR_CHILDREN = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""Where systemd runs a supervisor, its children do not speak for it."""
_PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent)


class Child:
    """A started process.

    It leads a process group of its own, so that nothing it started outlives it and a Ctrl-C in the terminal
    reaches the supervisor alone. The lifeline, a pipe that only the supervisor can write to, reads end-of-file
    when the supervisor is gone, however that came about.

    Raises:
        OSError: the program could not be started.
    """

    def __init__(self, entry: Entry, lifeline: int) -> None:
        path = os.pathsep.join(filter(None, (_PACKAGE_ROOT, os.environ.get("PYTHONPATH"))))
        own = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_CHILDREN}
        self._process = subprocess.Popen(  # noqa: S603 - our own table, no shell
            entry.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lifeline,),
            env={**_ENVIRONMENT, **own, LIFELINE_VARIABLE: str(lifeline), "PYTHONPATH": path},
        )
        self.pid = self._process.pid
        self.silent = False
        """The output has been closed at the child's end."""
        os.set_blocking(self.output, False)
        self._lines = OutputLines(entry.identity)

    @property
    def output(self) -> int:
        """Descriptor of what the child writes to stdout and stderr."""
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        return self._process.stdout.fileno()

    def terminate(self) -> None:
        """Ask the child, and only it, to stop; its own children are its business."""
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the whole process group; works on a stopped one too."""
        # Neither here nor in terminate() can the pid be someone else's: it stays reserved until ended() reaps it.
        os.killpg(self.pid, signal.SIGKILL)

    def ended(self) -> int | None:
        """The exit status (negative: the signal) once the child has ended; its group is killed before it is reaped."""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self.kill()
        return self._process.wait()

    def lines(self, now_ns: int) -> list[str]:
        """Lines to pass on. Reads what has been written, so that the child never waits for a full pipe."""
        chunks = []
        for _ in range(_READS_PER_TURN):
            try:
                chunk = os.read(self.output, _READ_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                self.silent = True
                break
            chunks.append(chunk)
        return self._lines.take(b"".join(chunks), now_ns)

    def flush(self) -> list[str]:
        """What is left of the output of a child that has ended."""
        return self._lines.flush()

    def close(self) -> None:
        """Close the pipe of a child that has ended."""
        if self._process.stdout is not None:
            self._process.stdout.close()


class OutputLines:
    """Cuts a child's output into lines and keeps a flood of them off the terminal. Pure: time is passed in.

    Args:
        identity: put before lines that do not name their process themselves.
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self._rest = b""
        self._since_ns = 0
        self._passed = self._left_out = 0

    def take(self, data: bytes, now_ns: int) -> list[str]:
        """Add output; return the whole lines to pass on now, with a note about those left out before."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            whole.append(self._rest)
            self._rest = b""
        lines: list[str] = []
        if now_ns - self._since_ns >= _SECOND_NS:
            self._since_ns, lines = now_ns, self._next_second()
        for line in filter(None, whole):
            if self._passed < LINES_PER_SECOND:
                self._passed += 1
                lines.append(self._text(line))
            else:
                self._left_out += 1
        return lines

    def flush(self) -> list[str]:
        """What is left when the child has ended."""
        last = [self._text(self._rest)] if self._rest else []
        self._rest = b""
        return [*last, *self._next_second()]

    def _next_second(self) -> list[str]:
        note = f"{self._identity}: {self._left_out} more lines left out (it may write {LINES_PER_SECOND} a second)"
        lines = [note] if self._left_out else []
        self._passed = self._left_out = 0
        return lines

    def _text(self, line: bytes) -> str:
        text = line[:MAX_LINE_BYTES].decode(errors="replace").rstrip()
        return text if f"{self._identity}: " in text else f"{self._identity}: {text}"
