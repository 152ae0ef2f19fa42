"""``logs -f``, ``telemetry -f`` and ``top`` while things go wrong: each record once, or a word about it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from daemon.client import Client
from tests.ctl.operators import REFLEXCTL, Operator
from tests.system.game import REFLEXD

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PATIENCE_S = 30.0


def read_until(command: subprocess.Popen[str], pattern: str, seconds: float = PATIENCE_S) -> str:
    """What the command says until the pattern is in it."""
    assert command.stdout is not None
    said, until = "", time.monotonic() + seconds
    while not re.search(pattern, said, re.DOTALL):
        assert select.select([command.stdout], [], [], max(0.0, until - time.monotonic()))[0], f"{pattern}:\n{said}"
        data = os.read(command.stdout.fileno(), 65536)
        assert data, f"it ended: {said}"
        said += data.decode()
    return said


def kill_gateway(operator: Operator) -> None:
    """``kill -9``, and wait for the one that comes after."""
    with Client(operator.daemon.address) as client:
        before = client.hello().epoch
        os.kill(operator.daemon.pid("gateway"), signal.SIGKILL)
        until = time.monotonic() + PATIENCE_S
        while client.hello(PATIENCE_S).epoch == before:
            assert time.monotonic() < until, operator.daemon.log()


def disarm(operator: Operator) -> None:
    """On the machine itself, past the gateway; the actuator says so in the log."""
    subprocess.run(
        [REFLEXD, "disarm", "--runtime", str(operator.daemon.folder / "run")], check=True, capture_output=True
    )


def test_the_log_is_followed_over_restarts_with_each_record_once(operator: Operator) -> None:
    here = ("--runtime", str(operator.daemon.folder / "run"))
    with operator.beginning(*here, "logs", "-f", "--process", "actuate", "--grep", "disarm by") as following:
        disarm(operator)
        said = read_until(following, "disarm by")
        for _ in range(2):
            os.kill(operator.daemon.pid("gateway"), signal.SIGKILL)
            disarm(operator)  # written down while there is no gateway
            said += read_until(following, "started anew.*disarm by")
            kill_gateway(operator)
            disarm(operator)
            said += read_until(following, "disarm by")
        time.sleep(2)
        following.send_signal(signal.SIGINT)
        said += following.communicate(timeout=10)[0]
    assert following.returncode == 128 + signal.SIGINT
    assert said.count("disarm by") == 5, said
    assert said.count("the gateway was started anew") == 4, said


def test_a_gateway_that_says_nothing_is_waited_for(operator: Operator) -> None:
    here = ("--runtime", str(operator.daemon.folder / "run"))
    with operator.beginning(*here, "logs", "-f", "--process", "actuate", "--grep", "disarm by") as following:
        disarm(operator)
        read_until(following, "disarm by")
        stopped = operator.daemon.pid("gateway")
        os.kill(stopped, signal.SIGSTOP)
        try:
            disarm(operator)
            said = read_until(following, "waiting for the gateway|disarm by")
        finally:
            with suppress(ProcessLookupError):  # the supervisor has replaced it, which is as good
                os.kill(stopped, signal.SIGCONT)
        if "disarm by" not in said:
            said += read_until(following, "disarm by")
    assert said.count("disarm by") == 1, said


def test_who_is_trusted_no_more_is_told_while_following(operator: Operator) -> None:
    car = operator.add_device("observe")
    with operator.beginning(car, "logs", "-f") as following:
        read_until(following, "gateway: ")
        operator.revoke()
        began = time.monotonic()
        assert following.wait(PATIENCE_S) == os.EX_NOPERM
        assert time.monotonic() - began < 4.0
        assert following.stdout is not None
        assert "reflexctl: " in following.stdout.read()


def test_a_client_at_work_is_refused_as_soon_as_its_key_is_revoked(operator: Operator) -> None:
    car = operator.add_device("operate")
    assert operator.run(car, "disarm")[0] == 0
    operator.revoke()
    began = time.monotonic()
    while (status := operator.run(car, "arm")[0]) == 0:
        assert time.monotonic() - began < 2.0
    assert status == os.EX_NOPERM


def test_telemetry_is_followed_without_a_hole(operator: Operator) -> None:
    here = ("--runtime", str(operator.daemon.folder / "run"))
    with operator.beginning(*here, "telemetry", "-f", "-n", "20", "--json") as following:
        assert following.stdout is not None
        records = [json.loads(following.stdout.readline()) for _ in range(200)]
    first = records[0]["number"]
    assert [record["number"] for record in records] == list(range(first, first + 200))
    kinds = {record["record"]["type"] for record in records}
    assert kinds == {"ActuatorRecord", "HealthRecord"}


def test_a_reader_that_has_seen_enough_ends_it_quietly(operator: Operator) -> None:
    folder = operator.daemon.folder / "run"
    script = f"{REFLEXCTL} --runtime {folder} telemetry -f | head -n 3; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "1"


def test_the_page_is_live_in_a_terminal(operator: Operator) -> None:
    descriptor, terminal = pty.openpty()
    command = subprocess.Popen(
        [REFLEXCTL, "--runtime", str(operator.daemon.folder / "run"), "top"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**operator.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
    )
    os.close(terminal)
    try:
        seen, until = "", time.monotonic() + PATIENCE_S
        while not re.search(r"good +(2[5-9]|3[0-9])\.\d .*infer", seen, re.DOTALL):
            assert time.monotonic() < until, seen
            seen += os.read(descriptor, 65536).decode(errors="replace")
            seen = seen[-20_000:]
        command.send_signal(signal.SIGINT)
        while select.select([descriptor], [], [], 5)[0]:
            try:
                seen += os.read(descriptor, 65536).decode(errors="replace")
            except OSError:
                break
        assert command.wait(10) == 128 + signal.SIGINT
        assert "Traceback" not in seen
    finally:
        command.kill()
        command.wait()
        os.close(descriptor)
