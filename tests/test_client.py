"""The client where there is no gateway to talk to: what it says, how soon, and that it does not hammer the device."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
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
def closing_door() -> Iterator[tuple[int, list[float]]]:
    """A port whose owner hangs up on everybody, as ZeroMQ does on a wrong key; and when that was."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        times: list[float] = []

        def answer() -> None:
            while True:
                try:
                    caller, _ = server.accept()
                except OSError:
                    return
                times.append(time.monotonic())
                caller.close()

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield server.getsockname()[1], times
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


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
