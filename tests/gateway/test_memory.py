"""The gateway's memory is bounded by the kernel, and the control loop does not notice when the bound is met."""

from __future__ import annotations

import json
import socket
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from daemon.client import Client
from daemon.gateway.memory import MEMORY_BYTES
from daemon.remote import Status
from tests.gateway_daemon import Running, running
from tests.packages import tiny_package

pytestmark = pytest.mark.slow

PART_BYTES = 50_000
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(16 + 1 + 31)
READY = b"\x05READY\x0bSocket-Type" + (6).to_bytes(4, "big") + b"DEALER"
MORE_LONG = b"\x03"
"""Flags of a frame: more parts follow, and the size has eight bytes (ZMTP 3.1)."""


def endless(daemon: Running) -> socket.socket:
    """A connection as ZeroMQ's own makes it, for what its own would not send."""
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(10.0)
    found.connect(daemon.address.requests.removeprefix("ipc://"))
    found.sendall(GREETING + b"\x04" + bytes([len(READY)]) + READY)
    said = b""
    while b"ROUTER" not in said:
        said += found.recv(200)
    return found


def moved_ns(daemon: Running) -> list[int]:
    """When the actuator was moved."""
    return [json.loads(line)["t_ns"] for line in (daemon.folder / "state/arm.jsonl").read_text().splitlines()]


def test_a_message_without_an_end_meets_a_bound(run_folder: Path) -> None:
    with running(run_folder, tiny_package(run_folder / "good")) as daemon:
        process, most = psutil.Process(daemon.pid("gateway")), 0
        began_ns = time.monotonic_ns()
        part = MORE_LONG + PART_BYTES.to_bytes(8, "big") + bytes(PART_BYTES)
        with endless(daemon) as hostile, pytest.raises(OSError, match=r"Broken pipe|reset"):
            for number in range(2 * MEMORY_BYTES // PART_BYTES):
                hostile.sendall(part)
                if number % 500 == 0:
                    most = max(most, process.memory_info().rss)
        print(f"{most / 2**20:.0f} MiB at most")
        assert most < MEMORY_BYTES + 2**26
        with Client(daemon.address) as client:
            client.hello(20.0)
            client.ask(Status())
        time.sleep(1.0)
        times = [at_ns for at_ns in moved_ns(daemon) if at_ns > began_ns]
        pauses = [after - before for before, after in pairwise(times)]
        assert len(times) > 20
        assert max(pauses) < 250e6, "the dead-man time"
