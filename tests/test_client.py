"""The client where there is no gateway to talk to: what it says, how soon, and that it does not hammer the device."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from daemon.client import HANDSHAKES, TIMEOUT_S, Address, Client, Listener, NoGateway, NotLetIn
from daemon.keys import KeyPair
from daemon.remote import ChangeAgent, Status
from tests.gateway_daemon import running
from tests.packages import tiny_package


def pair() -> KeyPair:
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


@contextmanager
def taking_calls(server: socket.socket, take: Callable[[socket.socket], object]) -> Iterator[None]:
    """Somebody at a socket who does this with each caller, and hangs up."""

    def answer() -> None:
        while True:
            try:
                caller, _ = server.accept()
            except OSError:
                return
            with caller:
                take(caller)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@contextmanager
def closing_door() -> Iterator[tuple[int, list[float]]]:
    """A port whose owner hangs up on everybody, as ZeroMQ does on a wrong key; and when that was."""
    times: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        with taking_calls(server, lambda _: times.append(time.monotonic())):
            yield server.getsockname()[1], times


def test_wrong_keys_are_told_soon_and_after_few_handshakes() -> None:
    """Without a pause it were a thousand a second, each of which costs the device a Curve25519 multiplication."""
    with closing_door() as (port, times), Client(Address.remote("127.0.0.1", port, pair().public, pair())) as client:
        began = time.monotonic()
        with pytest.raises(NotLetIn, match=rf"tcp://127.0.0.1:{port} is there, and the keys do not fit"):
            client.hello()
        assert time.monotonic() - began < TIMEOUT_S
    assert len(times) == HANDSHAKES


def test_nobody_there_is_told_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with Client(Address.remote("127.0.0.1", port, pair().public, pair())) as client:
        began = time.monotonic()
        with pytest.raises(NoGateway, match=rf"nobody at tcp://127.0.0.1:{port} within 0.5 s") as absent:
            client.hello(0.5)
        assert not isinstance(absent.value, NotLetIn)
        assert time.monotonic() - began < 1.5


UNUSABLE = {
    "host with a space": (Address.remote("no such", 7390, "a" * 40, pair()), "no such"),
    "key too short": (Address.remote("127.0.0.1", 7390, "a" * 39, pair()), "server key 'a"),
    "key that is no number": (Address.remote("127.0.0.1", 7390, "#" * 40, pair()), "server key '#"),
    "folder with too long a path": (Address.local("/run/" + "x" * 120), "File name too long"),
}


@pytest.mark.parametrize(("address", "why"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_address_that_no_gateway_can_have_is_told_in_words(address: Address, why: str) -> None:
    with Client(address) as client, pytest.raises(NoGateway, match=f"{why}.*nothing was done"):
        client.hello()
    with pytest.raises(NoGateway, match=f"{why}.*nothing was done"):
        Listener(address, ["log"])


def test_where_there_are_no_keys_none_are_said_not_to_fit(run_folder: Path) -> None:
    """A local gateway that is stopped in the middle of every handshake."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(run_folder / "requests@gateway"))
        server.listen()
        with taking_calls(server, lambda caller: caller.recv(1)), Client(Address.local(str(run_folder))) as client:
            with pytest.raises(NoGateway, match="is there and does not answer within 1 s") as absent:
                client.hello(1.0)
    assert not isinstance(absent.value, NotLetIn)


class Clock:
    """The clocks of the client's machine.

    Attributes:
        off_s: how far both are from the device's.
        drift_s: how far the one that stands still while the machine sleeps has come away from the device's since.
        passed_s: what the other one has gone on meanwhile.
    """

    sleep = staticmethod(time.sleep)
    CLOCK_MONOTONIC, CLOCK_BOOTTIME = time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME

    def __init__(self, off_s: float) -> None:
        self.off_s, self.drift_s, self.passed_s = off_s, 0.0, 0.0

    def monotonic(self) -> float:
        return self.monotonic_ns() / 1e9

    def monotonic_ns(self) -> int:
        return time.monotonic_ns() + round((self.off_s + self.drift_s) * 1e9)

    def clock_gettime(self, _: int) -> float:
        return time.monotonic() + self.off_s + self.passed_s


@pytest.mark.slow
def test_the_clock_of_the_client_does_not_matter(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(run_folder, tiny_package(run_folder / "good")) as daemon:
        for off_s in (-0.9 * time.monotonic(), 1e8):
            clock = Clock(off_s)
            monkeypatch.setattr("daemon.client.time", clock)
            with Client(daemon.address) as client:
                client.ask(Status())
                for drift_s in (-3.5, 3.5):
                    clock.drift_s, clock.passed_s = drift_s, clock.passed_s + 70.0
                    client.ask(Status())


@pytest.mark.slow
def test_a_client_goes_on_with_the_gateway_that_comes_after(run_folder: Path) -> None:
    """The first request after a restart carries the old epoch: the new gateway refuses it, and it is sent anew."""
    with running(run_folder, tiny_package(run_folder / "good")) as daemon, Client(daemon.address) as client:
        for ask in (Status(), ChangeAgent(agent="good", change="rate", value=20.0)):
            before = client.hello()
            client.ask(Status())
            os.kill(daemon.pid("gateway"), signal.SIGKILL)
            until = time.monotonic() + 20
            with Client(daemon.address) as other:
                while other.hello(20).epoch == before.epoch:
                    assert time.monotonic() < until, daemon.log()
            assert client.ask(ask, 10).status in ("done", "partial")
            assert client.welcome is not None
            assert client.welcome.epoch != before.epoch
        time.sleep(0.5)  # lines are written a few times a second
        assert daemon.log().count("infer: agent good: rate good 20 by") == 1, daemon.log()
