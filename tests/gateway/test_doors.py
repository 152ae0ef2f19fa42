"""The doors themselves, by real sockets: cut off and opened again, and as many callers as there may be."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from daemon.allowlist import Trusted, write_allow_list
from daemon.bus import BusError
from daemon.client import Address, Listener
from daemon.config import Daemon, Gateway
from daemon.gateway.doors import Door
from daemon.gateway.entrance import Entrance
from daemon.keys import KeyPair, new_key, read_key
from daemon.remote import StreamMark
from daemon.runtime import RuntimeFolder
from tests.gateway_daemon import free_port


class Way:
    """An entrance from the network, whose allow-list trusts ada and whom a test adds."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.ada = new_key(folder / "ada.key")
        self.runtime = RuntimeFolder(Daemon(name="t", runtime=str(folder / "r"), state=str(folder / "s")))
        self.runtime.create()
        self.trust()
        table = Gateway(listen="127.0.0.1", port=self.port)
        self.entrance = Entrance(table, self.runtime, "gateway", folder / "clients.toml", zmq.Poller())

    def trust(self, **more: Trusted) -> None:
        ada = Trusted(key=self.ada.public, role="observe")
        write_allow_list(self.folder / "clients.toml", {"ada": ada, **more})

    def address(self, own: KeyPair) -> Address:
        return Address.remote("127.0.0.1", self.port, read_key(self.runtime.state / "gateway.key").public, own)


@pytest.fixture
def way(run_folder: Path) -> Iterator[Way]:
    found = Way(run_folder)
    yield found
    found.entrance.close()


def hears(way: Way, listener: Listener, number: int, seconds: float = 5.0) -> bool:
    """The listener gets what is published, by default within the time in which it comes back by itself."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        way.entrance.publish("log", StreamMark(stream="log", epoch=1, number=number))
        for message in listener.receive(0.02):
            if message.number == number:
                return True
    return False


def test_who_is_cut_off_time_and_again_takes_nobody_else_along(way: Way) -> None:
    """ZeroMQ lets go of a closed port a little later than it says: to bind it again at once fails one time in five."""
    eve = new_key(way.folder / "eve.key")
    stays = [Listener(way.address(way.ada), ["log"]) for _ in range(5)]
    for number in range(60):
        way.trust(**({"eve": Trusted(key=eve.public, role="observe")} if number % 2 else {}))
        way.entrance.refresh()
        if number % 20 == 0:
            assert all(hears(way, listener, number + 1) for listener in stays)
    for listener in stays:
        listener.close()


def test_a_list_that_others_may_write_lets_nobody_in_until_it_is_put_right(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener(way.address(way.ada), ["log"])
    assert hears(way, listener, 1)
    path = way.folder / "clients.toml"
    path.chmod(0o620)
    way.entrance.refresh()
    list(listener.receive(0.1))
    assert not hears(way, listener, 2, 1.5)
    assert f"no client from another machine is let in: {path}: others may write the allow-list" in caplog.text
    path.chmod(0o600)
    way.entrance.refresh()
    listener.close()
    again = Listener(way.address(way.ada), ["log"])
    assert hears(way, again, 3)
    again.close()


def test_a_port_that_another_program_has_is_named_in_time(way: Way) -> None:
    taken, began = f"tcp://127.0.0.1:{way.port}", time.monotonic()
    with zmq.Context() as context, pytest.raises(BusError, match=rf"{taken}: cannot bind: Address already in use"):
        Door(context, taken, f"ipc://{way.folder}/stream", None)
    assert time.monotonic() - began < 5.0


CALLED = """
import sys
import time
import zmq
from daemon.process import use_all_descriptors
use_all_descriptors()
with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
    router.bind(sys.argv[1])
    print("there", flush=True)
    while router.poll(20_000):
        router.send_multipart(router.recv_multipart())
"""


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4096, reason="too few open files are allowed here")
def test_a_program_that_forgets_to_close_connections_ends_no_process(run_folder: Path) -> None:
    path = run_folder / "requests"
    own, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    called = subprocess.Popen(
        ["prlimit", "--nofile=256:4096", sys.executable, "-c", CALLED, f"ipc://{path}"], stdout=subprocess.PIPE
    )
    held: list[socket.socket] = []
    try:
        assert called.stdout is not None
        assert called.stdout.readline() == b"there\n"
        while len(held) < 1200:
            held.append(_connect(path))
        with zmq.Context() as context, context.socket(zmq.DEALER) as client:
            client.connect(f"ipc://{path}")
            client.send(b"still there?")
            assert client.poll(5000), called.poll()
            client.close(0)
    finally:
        for each in held:
            each.close()
        called.kill()
        called.communicate()
        resource.setrlimit(resource.RLIMIT_NOFILE, (own, hard))


def _connect(path: Path) -> socket.socket:
    """A connection, when there is room in the queue of those that wait."""
    until = time.monotonic() + 20.0
    while True:
        found = socket.socket(socket.AF_UNIX)
        found.setblocking(False)
        try:
            found.connect(str(path))
        except BlockingIOError:
            found.close()
            assert time.monotonic() < until
            time.sleep(0.005)
        else:
            return found
