"""The reception: once, in time, by those who may, and no more than their share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.gateway import account
from daemon.gateway.account import Answer
from daemon.gateway.clients import Client
from daemon.gateway.reception import Reception
from daemon.gateway.replies import done
from daemon.messages import Operation
from daemon.remote import (
    ROLES,
    Activate,
    Anything,
    ChangeAgent,
    ListModels,
    Log,
    Picture,
    PictureTaken,
    Processes,
    PushModel,
    Reply,
    Request,
    Result,
    Role,
    Status,
    Valve,
)

EPOCH, NOW, S = 7, 1_000_000_000_000, 1_000_000_000
NOTHING = Processes(healths=[], age_ms=[])


class Desk:
    """A reception that answers at once, unless it is told to wait, and writes down what it began."""

    def __init__(self) -> None:
        self.began: list[Request] = []
        self.open: list[tuple[Request, Answer]] = []
        self.waits = False
        self.result: Result = NOTHING
        self.reception = Reception(EPOCH, self._begin)

    def ask(self, ask: Anything, now_ns: int = NOW, client: Client | None = None, **fields: Any) -> list[Reply]:
        """What came back so far."""
        given = {"id": "identity-1", "epoch": EPOCH, "expires_ns": NOW + S, **fields}
        replies: list[Reply] = []
        who = client or Client("ada", "admin", True)
        self.reception.take(who, Request(ask=ask, **given), now_ns, replies.append)
        return replies

    def _begin(self, client: Client, request: Request, answer: Answer) -> None:
        self.began.append(request)
        if self.waits:
            self.open.append((request, answer))
        else:
            answer(done(request, self.result))


def test_one_sent_twice_runs_once_and_gets_the_same_reply_also_late() -> None:
    desk = Desk()
    first = desk.ask(Status())
    assert first == desk.ask(Status()) == desk.ask(Status(), NOW + 50 * S)
    assert len(desk.began) == 1


def test_one_that_is_under_way_is_joined_and_both_are_answered() -> None:
    desk = Desk()
    desk.waits = True
    replies = [desk.ask(Status()) for _ in range(2)]
    request, answer = desk.open[0]
    answer(done(request, NOTHING))
    assert replies[0] == replies[1] == [done(request, NOTHING)]
    assert len(desk.began) == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"expires_ns": NOW}, "expired"),
        ({"expires_ns": NOW + 61 * S}, "expired"),
        ({"epoch": EPOCH + 1}, "epoch"),
    ],
)
def test_out_of_its_time_nothing_is_begun_and_it_can_be_asked_anew(fields: dict[str, Any], reason: str) -> None:
    desk = Desk()
    (reply,) = desk.ask(Status(), **fields)
    assert (reply.status, reply.reason) == ("refused", reason)
    assert not desk.began


def test_an_id_used_for_something_else_is_refused() -> None:
    desk = Desk()
    desk.ask(Valve(operation="arm"))
    (reply,) = desk.ask(Valve(operation="estop"))
    assert reply.reason == "reused"
    assert "Valve operation=arm" in reply.detail


def test_two_clients_may_use_the_same_id() -> None:
    desk = Desk()
    desk.ask(Status())
    desk.ask(Status(), client=Client("bob", "admin", True))
    assert len(desk.began) == 2


@pytest.mark.parametrize(
    ("ask", "least"),
    [
        (Status(), "observe"),
        (Log(), "observe"),
        (ListModels(), "observe"),
        (Valve(operation="status"), "observe"),
        (ChangeAgent(agent="a", change="status"), "observe"),
        (Valve(operation="estop"), "operate"),
        (ChangeAgent(agent="a", change="pause"), "operate"),
        (Activate(agent="a"), "admin"),
        (PushModel(package="p", file="model.pte", offset=0, data=b""), "admin"),
    ],
)
@pytest.mark.parametrize("role", ["observe", "operate", "admin"])
def test_a_role_may_what_those_before_it_may(ask: Anything, least: Role, role: Role) -> None:
    desk = Desk()
    (reply,) = desk.ask(ask, client=Client("ada", role, True))
    allowed = ROLES.index(role) >= ROLES.index(least)
    assert (reply.status, bool(desk.began)) == (("done", True) if allowed else ("refused", False))


def test_pictures_need_more_than_a_role() -> None:
    desk = Desk()
    (reply,) = desk.ask(Picture(source="cam"), client=Client("ada", "admin", False))
    assert (reply.reason, desk.began) == ("role", [])


@pytest.mark.parametrize(("operation", "always"), [("estop", True), ("disarm", True), ("arm", False)])
def test_to_stop_is_allowed_however_much_was_asked(operation: Operation, always: bool) -> None:
    desk = Desk()
    for number in range(300):
        desk.ask(Status(), id=f"identity-{number}")
    assert desk.ask(Status(), id="one-more-1")[0].reason == "rate"
    (reply,) = desk.ask(Valve(operation=operation), id="stop-it-now")
    assert (reply.status == "done") == always
    assert desk.ask(Status(), NOW + S // 2, id="one-more-2")[0].status == "done", "its share grows again"


def test_one_client_that_asks_too_much_takes_nothing_from_another() -> None:
    desk = Desk()
    desk.waits = True
    for number in range(300):
        desk.ask(Status(), id=f"identity-{number}")
    assert len(desk.began) == account.UNDER_WAY
    desk.ask(Status(), client=Client("bob", "observe", False))
    assert len(desk.began) == account.UNDER_WAY + 1


def test_memory_is_bounded_and_what_has_no_reply_yet_is_kept() -> None:
    desk = Desk()
    desk.waits = True
    desk.ask(Status(), id="waiting-for-long")
    desk.waits = False
    for number in range(account.REMEMBERED + 500):
        desk.ask(Status(), NOW + number * S, id=f"identity-{number}", expires_ns=NOW + (number + 1) * S)
    assert len(desk.reception._accounts["ada"].known) <= account.REMEMBERED + 1
    desk.ask(Status(), id="waiting-for-long")
    assert len([request for request in desk.began if request.id == "waiting-for-long"]) == 1


def test_an_id_is_remembered_while_it_can_still_run_whatever_others_ask() -> None:
    """Three clients use their whole share for a minute: the first request, sent again at its end, is no new one."""
    desk = Desk()
    desk.ask(Valve(operation="arm"), id="to-be-sent-again", expires_ns=NOW + 60 * S)
    for number in range(60 * 50):
        now_ns = NOW + number * S // 50
        for name in ("ada", "bob", "eve"):
            desk.ask(Status(), now_ns, Client(name, "admin", False), id=f"identity-{number}", expires_ns=now_ns + S)
    desk.ask(Valve(operation="arm"), NOW + 59 * S, id="to-be-sent-again", expires_ns=NOW + 60 * S)
    assert sum(isinstance(request.ask, Valve) for request in desk.began) == 1


def test_large_results_go_and_commands_stay() -> None:
    desk = Desk()
    desk.result = PictureTaken(png=b"x" * account.REMEMBERED_BYTES, view="")
    desk.ask(Valve(operation="arm"), id="a-command")
    for number in range(20):
        desk.ask(Status(), id=f"identity-{number}")
    assert sum(known.size for known in desk.reception._accounts["ada"].known.values()) < 3 * account.REMEMBERED_BYTES
    desk.ask(Valve(operation="arm"), id="a-command")
    assert sum(isinstance(request.ask, Valve) for request in desk.began) == 1


REFUSED: dict[str, dict[str, Any]] = {
    "rate": {},
    "busy": {},
    "role": {"client": Client("ada", "observe", False)},
    "expired": {"expires_ns": NOW + 61 * S},
}


@pytest.mark.parametrize(("reason", "fields"), REFUSED.items(), ids=REFUSED)
def test_what_was_refused_does_not_run_when_a_copy_comes_later(reason: str, fields: dict[str, Any]) -> None:
    """The second of two copies came first, by the better connection: the client was told that nothing was done."""
    desk = Desk()
    desk.waits = reason == "busy"
    for number in range({"rate": 100, "busy": account.UNDER_WAY}.get(reason, 0)):
        desk.ask(Status(), id=f"identity-{number}")
    (reply,) = desk.ask(Valve(operation="arm"), id="refused-1", **fields)
    assert (reply.status, reply.reason) == ("refused", reason)
    while desk.open:
        request, answer = desk.open.pop()
        answer(done(request, NOTHING))
    late = desk.ask(Valve(operation="arm"), NOW + 30 * S, id="refused-1", expires_ns=NOW + 61 * S)
    assert late == [reply]
    assert not any(isinstance(request.ask, Valve) for request in desk.began)


def test_a_client_that_is_refused_all_the_time_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    for number in range(2000):
        desk.ask(Status(), NOW + number * S // 1000, id=f"identity-{number}")
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert 1 <= len(told) <= 3
    assert "Status by ada refused: more than 50 requests a second" in told[0]
    desk.ask(Status(), NOW + 10 * S, id="wrong-life", epoch=1)
    assert "earlier start" in caplog.records[-1].getMessage(), "another reason is told at once"


def test_no_client_writes_lines_of_log_in_another_ones_name(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    bob = Client("bob", "observe", False)
    desk.ask(ChangeAgent(agent="x\nERROR actuate@arm: \x1b[2J neutral", change="pause"), client=bob)
    (told,) = caplog.records
    assert told.getMessage().startswith("ChangeAgent agent=x\\nERROR actuate@arm: \\x1b[2J neutral change=pause by bob")


@given(
    st.lists(
        st.tuples(st.sampled_from(["identity-1", "identity-2"]), st.integers(0, 3), st.booleans(), st.booleans()),
        max_size=30,
    )
)
def test_whatever_is_sent_in_whatever_order_an_id_runs_once(sent: list[tuple[str, int, bool, bool]]) -> None:
    desk = Desk()
    now_ns, counted = NOW, 0
    for identity, pause_s, waits, answers in sent:
        now_ns += pause_s * S
        desk.waits = waits
        counted += len(desk.ask(Status(), now_ns, id=identity, expires_ns=NOW + 5 * S))
        if answers and desk.open:
            request, answer = desk.open.pop(0)
            answer(done(request, NOTHING))
    assert len({request.id for request in desk.began}) == len(desk.began)
    assert all(request.expires_ns > NOW for request in desk.began)
