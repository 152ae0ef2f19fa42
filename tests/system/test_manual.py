"""Driving by hand, through the gateway: above the agents while it is used, never past the valve."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.aio import AsyncClient
from daemon.client import Client, NoGateway, Refused
from daemon.remote import Outcomes, Propose, Status, Valve
from tests.gateway_daemon import Running, running
from tests.packages import tiny_package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

MANUAL = '[manual.stick]\nactuator = "arm"\nmax_age_ms = 150.0\n'


@pytest.fixture
def daemon(run_folder: Path) -> Iterator[Running]:
    with running(run_folder, tiny_package(run_folder / "good"), more=MANUAL) as found:
        yield found


def timeline(daemon: Running) -> list[dict[str, str | int]]:
    return [json.loads(line) for line in (daemon.folder / "state/arm.jsonl").read_text().splitlines()]


def by_hand(client: Client, action: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        client.ask(Propose(manual="stick", action=action))
        time.sleep(0.04)


def wait_for_agent(daemon: Running, since_ns: int) -> None:
    until = time.monotonic() + 10
    while not any(entry.get("agent") == "good" and int(entry["t_ns"]) > since_ns for entry in timeline(daemon)):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_hand_is_above_the_agent_while_it_is_used(daemon: Running) -> None:
    with Client(daemon.address) as client:
        wait_for_agent(daemon, 0)
        begun_ns = time.monotonic_ns()
        by_hand(client, "LEFT", 1.5)
        ended_ns = time.monotonic_ns()
    held = [entry for entry in timeline(daemon) if begun_ns + 3e8 < int(entry["t_ns"]) < ended_ns]
    assert {(entry.get("agent"), entry["action"]) for entry in held} <= {("stick", "LEFT")}, held
    assert ("stick", "LEFT") in {(entry.get("agent"), entry["action"]) for entry in timeline(daemon)}
    wait_for_agent(daemon, ended_ns)


def test_the_hand_is_held_to_the_valve(daemon: Running) -> None:
    with Client(daemon.address) as client:
        wait_for_agent(daemon, 0)
        by_hand(client, "JUMP", 0.3)
        client.ask(Valve(operation="estop"))
        stopped_ns = time.monotonic_ns()
        by_hand(client, "LEFT", 0.5)
        assert not [
            entry for entry in timeline(daemon) if int(entry["t_ns"]) > stopped_ns and entry.get("agent") == "stick"
        ]
        result = client.ask(Status()).result
        with pytest.raises(Refused, match="no manual control 'wheel'; there are: stick"):
            client.ask(Propose(manual="wheel", action="LEFT"))
    assert result is not None
    dropped = next(health.dropped for health in result.healths if health.process == "actuate@arm")  # type: ignore[union-attr]
    assert {"unknown_action", "estop"} <= dropped["stick"].keys()


def test_the_same_for_programs_on_asyncio(daemon: Running) -> None:
    async def work() -> None:
        async with AsyncClient(daemon.address) as client:
            assert (await client.hello()).daemon == "test"
            replies = await asyncio.gather(*(client.ask(Valve(operation="status")) for _ in range(5)))
            assert all(isinstance(reply.result, Outcomes) for reply in replies)
            with pytest.raises(Refused):
                await client.ask(Propose(manual="wheel", action="LEFT"))
            daemon.process.terminate()
            daemon.process.wait(timeout=10)
            with pytest.raises(NoGateway):
                await client.hello(0.5)

    asyncio.run(work())
