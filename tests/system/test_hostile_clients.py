"""Whoever comes to a gateway with whatever: nothing crashes or grows, good clients are answered, agents act."""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
import zmq

from daemon.allowlist import Trusted, write_allow_list
from daemon.client import Address, Client, Listener, NotLetIn
from daemon.keys import KeyPair, new_key, read_key
from daemon.remote import ANSWERS, ClientHello, Reply, Request, Status, StreamRecord, Valve
from daemon.wire import decode, encode
from tests.gateway_daemon import Running, free_port, listening, running
from tests.packages import tiny_package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MESSAGES = int(os.environ.get("HOSTILE", "40000"))
GROWTH_MB = 60.0


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Running]:
    folder = Path("/dev/shm") / f"rfx-hostile-{os.getpid()}"
    folder.mkdir()
    own = new_key(folder / "own.key")
    write_allow_list(folder / "state/clients.toml", {"ada": Trusted(key=own.public, role="operate")})
    package = tiny_package(folder / "good")
    with running(folder, package, gateway=listening(port)) as found:
        yield found
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if not path.is_dir() else path.rmdir()
    folder.rmdir()


def network(daemon: Running, port: int, own: KeyPair | None = None, server: str = "") -> Address:
    return daemon.network(port, own or read_key(daemon.folder / "own.key"), server)


def memory_mb(daemon: Running) -> float:
    return float(psutil.Process(daemon.pid("gateway")).memory_info().rss) / 2**20


def is_well(daemon: Running, gateway: int) -> None:
    """The same gateway answers, and the actuator is moved."""
    assert daemon.pid("gateway") == gateway, "it was started anew: it had ended, or hung"
    with Client(daemon.address) as client:
        client.ask(Status())
    lines = (daemon.folder / "state/arm.jsonl").read_text().splitlines()
    assert time.monotonic_ns() - json.loads(lines[-1])["t_ns"] < 1e9


def bad_messages(count: int) -> Iterator[bytes]:
    """Random, deep, huge, truncated, wrong in type or value."""
    chance = random.Random(1)
    good = encode(Request(id="12345678", epoch=1, expires_ns=2, ask=Status()))
    fields = msgspec.msgpack.decode(good)
    wrong: list[object] = [
        None,
        -1,
        2**63,
        1.5,
        "x" * 3000,
        b"\0" * 40_000,
        [],
        {},
        True,
        {"type": "Nothing"},
        {"type": "Valve"},
    ]
    for number in range(count):
        kind = number % 6
        if kind == 0:
            yield chance.randbytes(chance.randrange(200))
        elif kind == 1:
            yield b"\x91" * chance.randrange(1, 20_000) + b"\xc0"
        elif kind == 2:
            yield good[: chance.randrange(len(good))]
        elif kind == 3:
            yield msgspec.msgpack.encode({**fields, chance.choice(list(fields)): chance.choice(wrong)})
        elif kind == 4:
            at = chance.randrange(len(good))
            yield good[:at] + bytes([chance.randrange(256)]) + good[at + 1 :]
        else:
            yield msgspec.msgpack.encode({**fields, "ask": {"type": "Log", "limit": chance.choice(wrong)}})


@pytest.mark.parametrize("way", ["local", "network"])
def test_no_message_crashes_it_or_makes_it_grow(daemon: Running, port: int, way: str) -> None:
    gateway = daemon.pid("gateway")
    address = daemon.address if way == "local" else network(daemon, port)
    context = zmq.Context()
    hostile = address.open(context, zmq.DEALER)
    hostile.connect(address.requests)
    before_mb, refused = memory_mb(daemon), 0
    for number, data in enumerate(bad_messages(MESSAGES // 2)):
        hostile.send(data)
        if number % 200 == 199:
            while hostile.poll(0 if number % 2000 != 1999 else 500):
                reply = decode(hostile.recv(), ANSWERS)
                assert isinstance(reply, Reply), "nothing of this is good"
                assert (reply.status, bool(reply.detail)) == ("refused", True)
                refused += 1
        if number % 5000 == 0:
            is_well(daemon, gateway)
    context.destroy(linger=0)
    grown_mb = memory_mb(daemon) - before_mb
    print(f"{way}: {MESSAGES // 2} messages, {refused} refusals read, {grown_mb:.1f} MB grown")
    assert refused > MESSAGES // 20
    assert grown_mb < GROWTH_MB
    is_well(daemon, gateway)


def test_parts_floods_and_clients_that_read_nothing(daemon: Running) -> None:
    gateway, before_mb = daemon.pid("gateway"), memory_mb(daemon)
    context = zmq.Context()
    deaf = daemon.address.open(context, zmq.DEALER)
    deaf.setsockopt(zmq.RCVHWM, 1)
    deaf.connect(daemon.address.requests)
    for number in range(20_000):
        try:
            deaf.send(encode(ClientHello(who="deaf")), zmq.NOBLOCK)
        except zmq.Again:
            time.sleep(0.001)
        if number % 4000 == 0:
            is_well(daemon, gateway)
    parts = daemon.address.open(context, zmq.DEALER)
    parts.connect(daemon.address.requests)
    parts.send_multipart([b""] * 50)
    parts.send(b"")
    huge = daemon.address.open(context, zmq.DEALER)
    huge.connect(daemon.address.requests)
    huge.send(b"x" * 10_000_000)
    sleeping = daemon.address.open(context, zmq.SUB)
    sleeping.setsockopt(zmq.SUBSCRIBE, b"")
    sleeping.setsockopt(zmq.RCVHWM, 1)
    sleeping.connect(daemon.address.stream)
    time.sleep(2.0)
    is_well(daemon, gateway)
    context.destroy(linger=0)
    for _ in range(300):
        with socket.socket(socket.AF_UNIX) as dropped:
            dropped.connect(daemon.address.requests.removeprefix("ipc://"))
            dropped.send(b"\xff\0\0\0")
    is_well(daemon, gateway)
    assert memory_mb(daemon) - before_mb < GROWTH_MB


def test_a_taken_identity_takes_nobodys_replies(daemon: Running) -> None:
    context = zmq.Context()
    first, second = (daemon.address.open(context, zmq.DEALER) for _ in range(2))
    for each in (first, second):
        each.setsockopt(zmq.ROUTING_ID, b"same")
        each.connect(daemon.address.requests)
        time.sleep(0.2)
    first.send(encode(ClientHello(who="first")))
    assert first.poll(2000)
    second.send(encode(ClientHello(who="second")), zmq.NOBLOCK)
    assert not second.poll(500), "the one that came first has the name"
    context.destroy(linger=0)


@pytest.mark.parametrize("whose", ["unknown client", "wrong server"])
def test_keys_that_do_not_fit_are_told_within_two_seconds(daemon: Running, port: int, whose: str) -> None:
    stranger = new_key(daemon.folder / f"{whose.split()[0]}.key")
    address = (
        network(daemon, port, own=stranger) if "client" in whose else network(daemon, port, server=stranger.public)
    )
    began = time.monotonic()
    with Client(address) as client, pytest.raises(NotLetIn, match="the keys do not fit"):
        client.ask(Status())
    assert time.monotonic() - began < 2.5
    daemon.wait_for_log("was not let in")


def test_no_key_at_all_is_no_way_in(daemon: Running, port: int) -> None:
    context = zmq.Context()
    plain: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    plain.connect(f"tcp://127.0.0.1:{port}")
    plain.send(encode(ClientHello(who="nobody")))
    spy: zmq.Socket[bytes] = context.socket(zmq.SUB)
    spy.setsockopt(zmq.SUBSCRIBE, b"")
    spy.connect(f"tcp://127.0.0.1:{port + 1}")
    assert not plain.poll(2500)
    assert not spy.poll(500)
    context.destroy(linger=0)


def test_who_is_revoked_is_cut_off_from_requests_and_stream(daemon: Running, port: int) -> None:
    own = read_key(daemon.folder / "own.key")
    path = daemon.folder / "state/clients.toml"
    address = network(daemon, port)
    other = new_key(daemon.folder / "other.key")
    write_allow_list(
        path, {"ada": Trusted(key=own.public, role="operate"), "bob": Trusted(key=other.public, role="observe")}
    )
    time.sleep(0.5)
    stays, goes = Listener(network(daemon, port, own=other), ["telemetry"]), Listener(address, ["telemetry"])
    with Client(address) as client:
        client.ask(Valve(operation="status"))
        assert any(goes.receive(3.0))
        write_allow_list(path, {"bob": Trusted(key=other.public, role="observe")})
        daemon.wait_for_log("the allow-list has changed")
        time.sleep(0.5)
        list(goes.receive(0.1))  # what was on its way
        with pytest.raises(Exception, match=r"not trusted any more|keys do not fit"):
            client.ask(Valve(operation="status"))
        assert not list(goes.receive(2.0)), "a revoked client hears nothing more"
        until = time.monotonic() + 5
        while not any(isinstance(message, StreamRecord) for message in stays.receive(1.0)):
            assert time.monotonic() < until, "those still trusted come back by themselves"
    stays.close()
    goes.close()
    write_allow_list(path, {"ada": Trusted(key=own.public, role="operate")})
