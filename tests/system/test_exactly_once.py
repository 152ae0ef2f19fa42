"""Commands over a bad network, to a gateway that is killed in between: none lost without a word, none done twice."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.allowlist import Trusted, write_allow_list
from daemon.client import Address, Client, NoGateway, Refused, RemoteError, Unknown
from daemon.keys import new_key, read_key
from daemon.remote import ChangeAgent
from tests.gateway_daemon import Running, free_port, listening, running
from tests.gateway_proxy import Impairment, Proxy
from tests.packages import tiny_package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

COMMANDS = int(os.environ.get("COMMANDS", "60"))
DONE = re.compile(r"agent good: rate good (\S+) by '[^']*': done")
BAD = Impairment(delay_s=0.1, reset=0.02, stall=0.01, stall_s=1.0, cut_every_s=6.0, cut_s=1.5)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def daemon(run_folder: Path, port: int) -> Iterator[Running]:
    own = new_key(run_folder / "own.key")
    write_allow_list(run_folder / "state/clients.toml", {"ada": Trusted(key=own.public, role="operate")})
    with running(run_folder, tiny_package(run_folder / "good"), gateway=listening(port)) as found:
        yield found


def executed(daemon: Running) -> Counter[str]:
    """How often each rate was set, by infer's own word."""
    time.sleep(1.0)  # lines are written a few times a second
    log = "".join(path.read_text() for path in (daemon.folder / "state/log").iterdir())
    return Counter(DONE.findall(log))


def rate(number: int) -> float:
    """One of its own for each command, all of them good."""
    return round(15.0 + number * 0.001, 3)


def command(client: Client, number: int) -> str:
    try:
        client.ask(ChangeAgent(agent="good", change="rate", value=rate(number)))
    except Refused as error:
        return f"refused {error.reply.reason}"
    except Unknown:
        return "unknown"
    except NoGateway:
        return "nobody"
    return "done"


def test_over_a_bad_network_with_a_gateway_that_is_killed(daemon: Running, port: int) -> None:
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(7.0):
            with suppress(ProcessLookupError):  # it is on its way back
                os.kill(daemon.pid("gateway"), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    outcomes: dict[int, str] = {}
    own = read_key(daemon.folder / "own.key")
    with Proxy(port, BAD, seed=1) as proxy, Client(daemon.network(proxy.port, own)) as client:
        killer.start()
        for number in range(COMMANDS):
            outcomes[number] = command(client, number)
            if number % 3:  # as a person would; and not above the rate that is allowed
                time.sleep(0.02)
        stop.set()
        killer.join()
        print(f"{COMMANDS} commands, {proxy.resets} resets, {proxy.cuts} cuts: {Counter(outcomes.values())}")
    times = executed(daemon)
    for number, outcome in outcomes.items():
        done = times[f"{rate(number):g}"]
        assert done <= 1, f"{rate(number)} was done {done} times; the client was told: {outcome}"
        if outcome == "done":
            assert done == 1, f"{rate(number)} was not done, and the client was told that it was"
        elif outcome != "unknown":
            assert done == 0, f"{rate(number)} was done, and the client was told: {outcome}"
    assert Counter(outcomes.values())["done"] > COMMANDS / 3


def test_the_same_over_ipv6(run_folder: Path, port: int) -> None:
    own = new_key(run_folder / "own.key")
    write_allow_list(run_folder / "state/clients.toml", {"ada": Trusted(key=own.public, role="operate")})
    with (
        running(run_folder, tiny_package(run_folder / "good"), gateway=listening(port, "::1")) as daemon,
        Client(daemon.network(port, own, host="::1")) as client,
    ):
        assert command(client, 1) == "done"


def test_what_was_sent_while_nobody_was_there_is_never_done(run_folder: Path, port: int) -> None:
    package = tiny_package(run_folder / "good")
    own = new_key(run_folder / "own.key")
    write_allow_list(run_folder / "state/clients.toml", {"ada": Trusted(key=own.public, role="operate")})
    with running(run_folder, package, gateway=listening(port)):
        pass  # makes the device's key
    server = read_key(run_folder / "state/gateway.key").public
    outcomes = []

    def send(first: int) -> None:
        with Client(Address.remote("127.0.0.1", port, server, own)) as client:
            for number in range(first, first + 10):
                try:
                    client.ask(ChangeAgent(agent="good", change="rate", value=rate(number)), timeout_s=0.2)
                except RemoteError as error:
                    outcomes.append(error)

    senders = [threading.Thread(target=send, args=(first,)) for first in range(0, 50, 10)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert len(outcomes) == 50
    assert all(isinstance(error, NoGateway) and "nobody at tcp://" in str(error) for error in outcomes)
    with running(run_folder, package, gateway=listening(port)) as daemon:
        time.sleep(2.0)
        assert not executed(daemon)
