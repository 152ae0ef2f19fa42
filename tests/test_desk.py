"""The command desk: once, in time, and for this life of the daemon only."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.desk import MAX_WAIT_NS, REMEMBERED, CommandDesk, Outcome
from daemon.messages import Command, CommandReply, Hello, Welcome
from tests.actuate.setups import NOW

EPOCH = 77


class Desk:
    """A desk that writes down what it carried out."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.desk = CommandDesk(EPOCH, self._run, lambda now_ns: f"valve at {now_ns - NOW}")

    def ask(self, now_ns: int = NOW, **changes: Any) -> CommandReply:
        fields = {"id": "command-1", "epoch": EPOCH, "expires_ns": NOW + 100, "operation": "arm", "who": "a test"}
        reply = self.desk.answer(Command(**{**fields, **changes}), now_ns)
        assert isinstance(reply, CommandReply)
        return reply

    def _run(self, command: Command, now_ns: int) -> Outcome:
        self.ran.append(command.operation)
        return Outcome("done", f"{command.operation} number {len(self.ran)}")


def test_hello_tells_epoch_and_clock() -> None:
    assert Desk().desk.answer(Hello(), NOW) == Welcome(epoch=EPOCH, now_ns=NOW)


def test_a_command_runs_and_reports_the_valve() -> None:
    wanted = CommandReply(id="command-1", status="done", detail="arm number 1", state="valve at 5")
    assert Desk().ask(NOW + 5) == wanted


def test_the_same_id_runs_once_and_gets_the_same_answer_even_late() -> None:
    desk = Desk()
    first = desk.ask()
    assert desk.ask() == first
    assert desk.ask(NOW + 10**9) == first
    assert desk.ran == ["arm"]


def test_an_id_used_for_something_else_is_refused() -> None:
    desk = Desk()
    desk.ask()
    other = desk.ask(operation="estop")
    assert other.status == "refused"
    assert other.detail == "id command-1 was used for 'arm' before: give every command an id of its own"
    assert desk.ask().detail == "arm number 1"
    assert desk.ran == ["arm"]


@pytest.mark.parametrize(("left_ns", "status"), [(1, "done"), (0, "refused"), (-1, "refused"), (-NOW, "refused")])
def test_expiry(left_ns: int, status: str) -> None:
    desk = Desk()
    assert desk.ask(expires_ns=NOW + left_ns).status == status
    assert bool(desk.ran) == (status == "done")


@pytest.mark.parametrize(("over_ns", "status"), [(0, "done"), (1, "refused")])
def test_an_expiry_may_not_be_for_ever(over_ns: int, status: str) -> None:
    reply = Desk().ask(expires_ns=NOW + MAX_WAIT_NS + over_ns)
    assert reply.status == status
    assert status == "done" or "expires in 60 s" in reply.detail


@pytest.mark.parametrize("epoch", [0, EPOCH - 1, EPOCH + 1])
def test_another_epoch_is_refused(epoch: int) -> None:
    desk = Desk()
    reply = desk.ask(epoch=epoch)
    assert reply.status == "refused"
    assert "earlier start" in reply.detail
    assert desk.ran == []


def test_a_refusal_is_remembered_too() -> None:
    desk = Desk()
    refused = desk.ask(epoch=1)
    assert desk.ask() == refused
    assert desk.ran == []


def test_memory_is_bounded_and_keeps_what_is_asked_again() -> None:
    desk = Desk()
    for number in range(REMEMBERED):
        desk.ask(id=f"command-{number}")
    desk.ask(id="command-0")
    desk.ask(id="one-more-command")
    assert len(desk.ran) == REMEMBERED + 1
    desk.ask(id="command-0")
    assert len(desk.ran) == REMEMBERED + 1, "asked again lately: kept"
    desk.ask(id="command-1")
    assert len(desk.ran) == REMEMBERED + 2, "the oldest was forgotten"
