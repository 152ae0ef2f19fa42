"""What a client on this or another machine and the gateway say to one another: the only declaration of it.

The wire is that of ``messages.py``: one msgpack map a message, ``type`` and ``v`` in each. ``docs/protocol.md``
describes the exchange for those who write a client in another language.

``_ns`` is CLOCK_MONOTONIC of the device. Wall clock (``_us``, microseconds since 1970) is there for people to read;
nothing is decided by it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from daemon.messages import (
    ActionName,
    Applied,
    Count,
    Health,
    Label,
    Message,
    Name,
    NameOrNone,
    Nanoseconds,
    Operation,
    Refused,
    Text,
    Topic,
    Values,
)

Role = Literal["observe", "operate", "admin"]
ROLES: tuple[Role, ...] = ("observe", "operate", "admin")
"""Each may do what those before it may."""
Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
LEVELS: tuple[Level, ...] = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
StreamName = Literal["log", "telemetry"]
STREAMS: tuple[StreamName, ...] = ("log", "telemetry")
RequestId = Annotated[str, msgspec.Meta(min_length=8, max_length=36)]
MAX_RECORDS = 1000
"""Records in one reply."""
PART_BYTES = 48 * 1024
"""Bytes of a package in one request."""
MAX_TEXT = 2048
"""Letters of a log record."""


def tcp_addresses(host: str, port: int) -> tuple[str, str]:
    """Where requests go and where the stream is, for ZeroMQ; an IPv6 address stands in brackets."""
    shown = f"[{host}]" if ":" in host else host
    return f"tcp://{shown}:{port}", f"tcp://{shown}:{port + 1}"


# --- what the streams carry ---------------------------------------------------------------------------------


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """One line of log. ``lost``: so many records before this one are missing; the text says of whom and why."""

    at_us: Count
    level: Level
    process: Label
    text: Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
    agent: Label = ""
    lost: Count = 0


class ActuatorRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """What an actuator did, or did not let through."""

    actuator: Label
    event: Applied | Refused


class HealthRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """What a process said of itself."""

    health: Health


class Numbered(msgspec.Struct, frozen=True, kw_only=True):
    """A record and its place in its stream: 1, 2, 3, ... in one life of the gateway, its epoch."""

    number: Count
    record: LogRecord | ActuatorRecord | HealthRecord


class StreamRecord(Message, frozen=True, kw_only=True):
    """One record, published."""

    stream: StreamName
    epoch: Count
    number: Count
    record: LogRecord | ActuatorRecord | HealthRecord


class StreamMark(Message, frozen=True, kw_only=True):
    """Sent every second: the last number so far, by which a subscriber sees that the newest records are missing."""

    stream: StreamName
    epoch: Count
    number: Count


# --- what a client asks -------------------------------------------------------------------------------------


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """Base of what can be asked for. ``needs``: the least role that may."""

    needs: ClassVar[Role] = "observe"

    @property
    def least_role(self) -> Role:
        """:attr:`needs`, or less where this one only asks."""
        return "observe" if getattr(self, "operation", getattr(self, "change", "")) == "status" else self.needs


class Status(Ask, frozen=True, kw_only=True):
    """How every process is doing; answered by :class:`Processes`."""


class Valve(Ask, frozen=True, kw_only=True):
    """Command actuators, by default all of them; answered by :class:`Outcomes`. ``status`` needs ``observe`` alone."""

    needs: ClassVar[Role] = "operate"
    operation: Operation
    actuators: Annotated[list[Label], msgspec.Meta(max_length=16)] = []


class Propose(Ask, frozen=True, kw_only=True):
    """An action by hand, of a table ``[manual.NAME]``; answered by the detail alone.

    Done means handed to the valve, which may refuse it: the telemetry says so. It is in force for a moment; send again.
    """

    needs: ClassVar[Role] = "operate"
    manual: Label
    action: ActionName | None = None
    values: Values = []


class ChangeAgent(Ask, frozen=True, kw_only=True):
    """Pause, resume, prioritise or pace an agent; answered by :class:`Outcomes`. ``status`` needs ``observe`` alone.

    ``value`` goes with ``priority`` (0 to 9) and ``rate`` (decisions a second).
    """

    needs: ClassVar[Role] = "operate"
    agent: Label
    change: Literal["status", "pause", "resume", "priority", "rate"]
    value: float | None = None


class Log(Ask, frozen=True, kw_only=True):
    """Records of the log, oldest first, the newest ``limit`` that fit; answered by :class:`Records`.

    ``since_us`` and ``until_us`` are wall clock, both included, 0 for no bound; ``level`` is the lowest wanted;
    ``agent`` and ``process`` empty for any; ``text`` must be in the record's.
    """

    since_us: Count = 0
    until_us: Count = 0
    level: Level = "DEBUG"
    agent: Label = ""
    process: Label = ""
    text: Annotated[str, msgspec.Meta(max_length=128)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_RECORDS)] = 200

    def takes(self, record: LogRecord) -> bool:
        """The record is one of those asked for."""
        return (
            LEVELS.index(record.level) >= LEVELS.index(self.level)
            and self.since_us <= record.at_us <= (self.until_us or record.at_us)
            and self.agent in ("", record.agent)
            and self.process in ("", record.process, record.process.partition("@")[0])
            and self.text in record.text
        )


class Backfill(Ask, frozen=True, kw_only=True):
    """Records ``first`` to ``last`` of a stream, both included, for a subscriber with a gap; answered by Records."""

    stream: StreamName
    first: Count
    last: Count


class Picture(Ask, frozen=True, kw_only=True):
    """What a model sees: the next frame of a source, as ``agent`` sees it; answered by :class:`PictureTaken`.

    Needs, beside the role, that the client was trusted with frames.
    """

    source: Label
    agent: Label = ""


class CheckConfig(Ask, frozen=True, kw_only=True):
    """Read the device's configuration file anew, without using it; answered by the detail alone."""


class Activate(Ask, frozen=True, kw_only=True):
    """Have an agent act by a package of the models folder, empty for the configured one; answered by :class:`Outcomes`.

    Done means begun: it is checked, acts, is on trial for some seconds and taken back if it turns out worse. The state
    in the outcome, of this and of ``ChangeAgent`` with ``status``, says how far it is.
    """

    needs: ClassVar[Role] = "admin"
    agent: Label
    package: NameOrNone = ""


class Rollback(Ask, frozen=True, kw_only=True):
    """Back to the model an agent acted by before; as :class:`Activate`."""

    needs: ClassVar[Role] = "admin"
    agent: Label


class ListModels(Ask, frozen=True, kw_only=True):
    """The packages that can be activated; answered by :class:`Models`."""


class PushModel(Ask, frozen=True, kw_only=True):
    """A part of a package's file, parts in order; a part sent again changes nothing. Answered by the detail alone."""

    needs: ClassVar[Role] = "admin"
    package: Name
    file: Literal["manifest.json", "model.pte", "goldens.bin"]
    offset: Count
    data: Annotated[bytes, msgspec.Meta(max_length=PART_BYTES)]


class FinishModel(Ask, frozen=True, kw_only=True):
    """All parts are there: check them against the manifest's hashes. Answered by the detail alone."""

    needs: ClassVar[Role] = "admin"
    package: Name


class RemoveModel(Ask, frozen=True, kw_only=True):
    """Remove a package that no agent acts by. Answered by the detail alone."""

    needs: ClassVar[Role] = "admin"
    package: Name


Anything = (
    Status
    | Valve
    | Propose
    | ChangeAgent
    | Activate
    | Rollback
    | ListModels
    | PushModel
    | FinishModel
    | RemoveModel
    | Log
    | Backfill
    | Picture
    | CheckConfig
)


# --- what a client gets -------------------------------------------------------------------------------------


class Processes(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """The last word of every process, and how long ago that was."""

    healths: list[Health]
    age_ms: list[float]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a command for one actuator or agent. ``unknown``: sent, but no answer came."""

    target: Label
    status: Literal["done", "partial", "refused", "unknown"]
    detail: Text
    state: Text = ""


class Outcomes(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """One outcome for each target."""

    outcomes: list[Outcome]


class Records(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """Records found. Those older than what the gateway keeps in memory have the number 0.

    ``oldest`` and ``last`` are the first and last number to be had; ``more``: there were more than the reply takes.
    """

    epoch: Count
    oldest: Count
    last: Count
    records: list[Numbered]
    more: bool = False


class PictureTaken(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """A PNG, its text chunks ``sequence`` and ``sensor_ns`` the frame's."""

    png: bytes
    view: Text


class ModelThere(msgspec.Struct, frozen=True, kw_only=True):
    """A package of the models folder. ``detail``: what is wrong with it."""

    package: Label
    model: Label = ""
    sha256: Label = ""
    bytes: Count = 0
    detail: Text = ""


class Models(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """The packages of the models folder."""

    models: list[ModelThere]


Result = Processes | Outcomes | Records | PictureTaken | Models

Reason = Literal[
    "",
    "role",  # the client's role, or its grant, does not allow it
    "expired",  # its time was over, or further away than allowed
    "epoch",  # meant for an earlier life of the gateway
    "reused",  # the id was used for something else
    "rate",  # more requests than a client may send
    "busy",  # as many requests of this client under way as may be
    "malformed",  # not a message this link carries
    "failed",  # tried, and not done: the detail says why
]
"""Why a request was refused, for programs; the detail is for people."""


# --- the exchange -------------------------------------------------------------------------------------------


class ClientHello(Message, frozen=True, kw_only=True):
    """First message of a client; ``who`` names person and machine, for the log."""

    who: Text


class GatewayWelcome(Message, frozen=True, kw_only=True):
    """Answer to ClientHello: requests must carry ``epoch`` and expire in the time of ``now_ns``."""

    daemon: Label
    epoch: Count
    now_ns: Nanoseconds
    wall_us: Count
    role: Role
    frames: bool
    version: Text


class Request(Message, frozen=True, kw_only=True):
    """One request. Ids are remembered: one sent twice runs once and gets the same reply.

    An id is chosen anew for each request, at random. It expires at ``expires_ns``, 60 s from now at most: what has not
    begun by then is refused and never runs.
    """

    id: RequestId
    epoch: Count
    expires_ns: Nanoseconds
    ask: Anything


class Reply(Message, frozen=True, kw_only=True):
    """What came of a request. ``unknown``: it may have been carried out, and this cannot be found out any more."""

    id: Annotated[str, msgspec.Meta(max_length=36)]
    status: Literal["done", "partial", "refused", "unknown"]
    reason: Reason = ""
    detail: Text = ""
    result: Result | None = None


REQUESTS = Topic(carries=(ClientHello, Request), binds="subscriber", max_bytes=PART_BYTES + 4096)
"""What the gateway accepts (a ROUTER; clients are DEALERs, one part a message)."""
ANSWERS = Topic(carries=(GatewayWelcome, Reply), max_bytes=4 * 1024 * 1024)
"""What a client gets back."""
STREAM = Topic(carries=(StreamRecord, StreamMark), max_bytes=64 * 1024, queue=1000)
"""What the gateway publishes, in two parts: the stream's name, by which one subscribes, and the message."""
