"""The C++ decoders as a process that answers: what was decoded, encoded again, or the refusal."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
from typing import IO, Literal, NamedTuple

What = Literal["w", "d", "m"]
"""w: a message to a worker; d: one from it, to the daemon; m: a manifest's JSON."""

_SIZE = struct.Struct("=I")
_SANITIZERS = {
    "ASAN_OPTIONS": "quarantine_size_mb=1",  # what is freed goes back, so that memory can be measured
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


class Answer(NamedTuple):
    """``data``: the value encoded again if it was accepted, the refusal's text otherwise."""

    accepted: bool
    data: bytes

    @property
    def text(self) -> str:
        """The refusal; always UTF-8."""
        return self.data.decode()


class Probe:
    """A running ``protocol-probe``; ``command`` starts it."""

    def __init__(self, *command: str) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | _SANITIZERS,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def ask(self, what: What, data: bytes) -> Answer:
        """Decode ``data``; a probe that dies of it fails the test with what it wrote."""
        try:
            self._requests.write(what.encode() + _SIZE.pack(len(data)) + data)
            self._requests.flush()
            verdict = self._answers.read(1)
            answer = self._answers.read(*_SIZE.unpack(self._answers.read(_SIZE.size)))
        except (OSError, struct.error):
            raise AssertionError(f"the probe died of {what} {data[:200].hex()}: {self._last_words()}") from None
        return Answer(verdict == b"+", answer)

    def close(self) -> None:
        """End it; an exit status that says it went wrong fails the test."""
        self._requests.close()
        status = self._process.wait(timeout=30)
        self._answers.close()
        last_words = self._last_words()
        self._errors.close()
        assert status == 0, last_words

    def _last_words(self) -> str:
        self._process.wait(timeout=30)
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[:4000]
