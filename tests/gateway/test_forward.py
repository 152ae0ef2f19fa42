"""Commands on their way: to one life of a process only, asked about until they are answered, each with one outcome."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.bus import Bus
from daemon.config import Daemon
from daemon.gateway.forward import RETRY_NS, Forwarder
from daemon.messages import Command, CommandReply, Hello, Message, Welcome
from daemon.remote import Outcome
from daemon.runtime import RuntimeFolder

S = 1_000_000_000


class Link:
    """The process's end, by hand."""

    def __init__(self) -> None:
        self.there = True
        self.sent: list[Message] = []
        self.answers: list[Message] = []

    def send(self, message: Message) -> bool:
        if self.there:
            self.sent.append(message)
        return self.there

    def receive(self) -> list[Message]:
        answers, self.answers = self.answers, []
        return answers


class Way:
    """A forwarder over such a link, and what came of its commands."""

    def __init__(self, bus: Bus) -> None:
        self.forwarder = Forwarder(bus, "command", "arm")
        self.link = Link()
        self.forwarder._link = self.link  # type: ignore[assignment]
        self.outcomes: list[Outcome] = []

    def send(self, identity: str = "command-1", now_ns: int = 0, expires_ns: int = S) -> None:
        command = Command(id=identity, epoch=0, expires_ns=expires_ns, operation="estop", who="a test")
        self.forwarder.send(command, now_ns, self.outcomes.append)

    def answer(self, *answers: Message, now_ns: int = 1) -> None:
        self.link.answers += answers
        self.forwarder.turn(now_ns)

    def commands(self) -> list[Command]:
        return [message for message in self.link.sent if isinstance(message, Command)]


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    folder = tmp_path_factory.mktemp("f")
    runtime = RuntimeFolder(Daemon(name="t", runtime=str(folder / "r"), state=str(folder / "s")))
    runtime.create()
    with Bus(runtime) as found:
        yield found


def reply(identity: str = "command-1") -> CommandReply:
    return CommandReply(id=identity, status="done", detail="stopped", state="latched")


def test_hello_first_then_the_command_for_that_life(bus: Bus) -> None:
    way = Way(bus)
    way.send()
    assert [type(message) for message in way.link.sent] == [Hello]
    way.answer(Welcome(epoch=9, now_ns=0))
    assert [command.epoch for command in way.commands()] == [9]
    way.answer(reply())
    assert way.outcomes == [Outcome(target="arm", status="done", detail="stopped", state="latched")]


def test_a_process_that_is_not_there_is_waited_for_until_the_expiry(bus: Bus) -> None:
    way = Way(bus)
    way.link.there = False
    way.send()
    way.forwarder.turn(S // 2)
    assert not way.outcomes
    way.link.there = True
    way.forwarder.turn(S // 2 + RETRY_NS)
    way.answer(Welcome(epoch=9, now_ns=0), now_ns=S - 1)
    assert len(way.commands()) == 1


def test_nobody_until_the_end_is_told_as_nothing_done(bus: Bus) -> None:
    way = Way(bus)
    way.send()
    way.forwarder.turn(2 * S)
    (outcome,) = way.outcomes
    assert outcome.status == "refused"
    assert "does not run: nothing was done" in outcome.detail


def test_it_is_not_sent_after_its_expiry(bus: Bus) -> None:
    way = Way(bus)
    way.send()
    way.answer(Welcome(epoch=9, now_ns=0), now_ns=S)
    assert not way.commands()


def test_sent_and_not_answered_is_told_as_unknown(bus: Bus) -> None:
    way = Way(bus)
    way.send()
    way.answer(Welcome(epoch=9, now_ns=0))
    way.forwarder.turn(2 * S)
    assert [outcome.status for outcome in way.outcomes] == ["unknown"]


def test_another_life_never_gets_what_was_sent_to_the_one_before(bus: Bus) -> None:
    way = Way(bus)
    way.send()
    way.answer(Welcome(epoch=9, now_ns=0))
    way.answer(Welcome(epoch=10, now_ns=0))
    assert [command.epoch for command in way.commands()] == [9]
    assert [outcome.status for outcome in way.outcomes] == ["unknown"]
    assert "started anew" in way.outcomes[0].detail


def test_many_at_once_are_each_sent_once_and_one_hello_serves_all(bus: Bus) -> None:
    """A stop is let through however often it is sent: each welcome used to send all that were under way again."""
    way = Way(bus)
    for number in range(500):
        way.send(f"command-{number}")
    way.answer(Welcome(epoch=9, now_ns=0))
    way.answer(Welcome(epoch=9, now_ns=0))
    assert len(way.commands()) == 500
    assert len(way.link.sent) <= 502
    way.answer(*(reply(f"command-{number}") for number in range(1, 500)))
    way.answer(now_ns=RETRY_NS + 1)
    way.answer(Welcome(epoch=9, now_ns=0), now_ns=RETRY_NS + 2)
    assert [command.id for command in way.commands()[500:]] == ["command-0"], (
        "asked again for the one without an answer"
    )


def test_there_is_a_pause_before_one_that_is_not_there_is_looked_for_again(bus: Bus) -> None:
    way = Way(bus)
    way.link.there = False
    way.send()
    due_ns = way.forwarder.due_ns()
    assert due_ns is not None
    assert due_ns >= 1_000_000


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 5)),
        st.tuples(st.just("welcome"), st.integers(1, 3)),
        st.tuples(st.just("reply"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(1, S)),
        st.tuples(st.just("there"), st.integers(0, 1)),
    ),
    max_size=40,
)


@given(STEPS)
def test_in_whatever_order_each_command_has_one_outcome_and_one_life(bus: Bus, steps: list[tuple[str, int]]) -> None:
    way, now_ns, sent = Way(bus), 0, 0
    for step, number in steps:
        if step == "send":
            sent += 1
            way.send(f"command-{sent}", now_ns, now_ns + S)
        elif step == "welcome":
            way.answer(Welcome(epoch=number, now_ns=0), now_ns=now_ns)
        elif step == "reply":
            way.answer(reply(f"command-{number}"), now_ns=now_ns)
        elif step == "wait":
            now_ns += number
            way.forwarder.turn(now_ns)
        else:
            way.link.there = bool(number)
    way.forwarder.turn(now_ns + 3 * S)
    assert len(way.outcomes) == sent
    lives: dict[str, set[int]] = {}
    for command in way.commands():
        lives.setdefault(command.id, set()).add(command.epoch)
    assert all(len(epochs) == 1 for epochs in lives.values())
    assert way.forwarder.due_ns() is None
