"""The client of the command line against servers that lose, double and garble their answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from daemon.bus import Bus
from daemon.commander import CommandError, command
from daemon.config import Daemon
from daemon.messages import Command, CommandReply, Hello, Message, Welcome
from daemon.runtime import RuntimeFolder
from daemon.wire import encode

Answers = Callable[[Message], list[bytes]]


class Server(threading.Thread):
    """An actuator's command socket that answers as ``answers`` says."""

    def __init__(self, runtime: RuntimeFolder, answers: Answers) -> None:
        super().__init__()
        self._runtime, self._answers = runtime, answers
        self.asked: list[Message] = []
        self.ending = threading.Event()

    def run(self) -> None:
        with Bus(self._runtime) as bus:
            server = bus.command_server("command", "paddle")
            while not self.ending.is_set():
                server.socket.poll(10)
                received = server.receive()
                if received is not None:
                    peer, message = received
                    self.asked.append(message)
                    for data in self._answers(message):
                        server.socket.send_multipart([peer, data], zmq.NOBLOCK)


@pytest.fixture
def runtime(tmp_path: Path) -> RuntimeFolder:
    runtime = RuntimeFolder(Daemon(name="t", runtime=str(tmp_path / "run"), state=str(tmp_path / "state")))
    runtime.create()
    return runtime


@pytest.fixture
def serve(runtime: RuntimeFolder) -> Iterator[Callable[[Answers], Server]]:
    servers: list[Server] = []

    def started(answers: Answers) -> Server:
        servers.append(Server(runtime, answers))
        servers[-1].start()
        return servers[-1]

    yield started
    for server in servers:
        server.ending.set()
        server.join()


def proper(message: Message) -> list[bytes]:
    if isinstance(message, Command):
        return [encode(CommandReply(id=message.id, status="done", detail=message.operation, state="armed"))]
    return [encode(Welcome(epoch=7, now_ns=1000))]


def test_hello_then_the_command_in_the_daemons_epoch_and_time(
    runtime: RuntimeFolder, serve: Callable[[Answers], Server]
) -> None:
    server = serve(proper)
    assert command(runtime, "paddle", "arm", 2000).detail == "arm"
    hello, sent = server.asked
    assert isinstance(hello, Hello)
    assert isinstance(sent, Command)
    assert sent.epoch == 7
    assert 1000 < sent.expires_ns <= 1000 + 1_000_000_000, "it never outlives its caller, nor a second"
    assert len(sent.id) >= 8
    assert sent.who


@pytest.mark.parametrize("lost", [Hello, Command])
def test_a_lost_answer_is_asked_for_again_under_the_same_id(
    runtime: RuntimeFolder, serve: Callable[[Answers], Server], lost: type[Message]
) -> None:
    losses = [1]

    def answers(message: Message) -> list[bytes]:
        if isinstance(message, lost) and losses:
            losses.clear()
            return []
        return proper(message)

    server = serve(answers)
    assert command(runtime, "paddle", "arm", 3000).status == "done"
    assert len({message.id for message in server.asked if isinstance(message, Command)}) == 1


def test_a_daemon_that_starts_late_still_answers(runtime: RuntimeFolder, serve: Callable[[Answers], Server]) -> None:
    timer = threading.Timer(0.4, serve, [proper])
    timer.start()
    assert command(runtime, "paddle", "status", 3000).status == "done"
    timer.join()


def test_doubled_answers_do_no_harm(runtime: RuntimeFolder, serve: Callable[[Answers], Server]) -> None:
    serve(lambda message: proper(message) * 2)
    assert command(runtime, "paddle", "arm", 3000).status == "done"
    assert command(runtime, "paddle", "disarm", 3000).detail == "disarm"


@pytest.mark.parametrize("data", [b"garbage", encode(Hello())], ids=["garbage", "hello"])
def test_an_answer_of_another_protocol_is_an_error(
    runtime: RuntimeFolder, serve: Callable[[Answers], Server], data: bytes
) -> None:
    serve(lambda _: [data])
    with pytest.raises(CommandError, match="actuate@paddle answered in a way this build does not know"):
        command(runtime, "paddle", "arm", 1000)


def test_an_answer_to_another_command_is_none(runtime: RuntimeFolder, serve: Callable[[Answers], Server]) -> None:
    def answers(message: Message) -> list[bytes]:
        if isinstance(message, Command):
            return [encode(CommandReply(id="somebody-else", status="done", detail="", state=""))]
        return proper(message)

    serve(answers)
    began = time.monotonic()
    with pytest.raises(CommandError, match="no answer from actuate@paddle within 500 ms"):
        command(runtime, "paddle", "arm", 500)
    assert time.monotonic() - began < 1.5
