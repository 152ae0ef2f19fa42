"""Every message reflexd's processes exchange, and the topics that carry them: the only declaration of either.

On the wire a message is one msgpack map (see ``wire.py``). Its ``type`` names the struct, ``v`` the protocol
version. Optional fields may be added later and are ignored by older peers; a missing required field, a wrong
type or an unknown ``type`` is refused by name.

Times ending in ``_ns`` are CLOCK_MONOTONIC nanoseconds of this boot; wall clock never enters a message.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

PROTOCOL = 1
"""Version of the message set; a peer refuses any other."""

NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,31}\Z"
"""Names of agents, sources, actuators and worlds: they become file and socket names. (``$`` would let a final newline
pass.)"""
SHA256_PATTERN = r"^[0-9a-f]{64}\Z"

Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
NameOrNone = Annotated[str, msgspec.Meta(pattern=rf"\A\Z|{NAME_PATTERN}")]
"""A name, or nothing."""
Label = Annotated[str, msgspec.Meta(max_length=64)]
"""A name that the reader only compares with those it knows. No pattern: on the way to the actuator its regular
expression costs 0.02 ms each time, and an unknown name is refused either way."""
Sha256 = Annotated[str, msgspec.Meta(pattern=SHA256_PATTERN)]
Text = Annotated[str, msgspec.Meta(max_length=512)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
ActionName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Values = Annotated[list[float], msgspec.Meta(max_length=32)]

Drop = Literal[
    "superseded",  # infer: a newer observation replaced the waiting one
    "deadline",  # infer: refused at its deadline, before or while it was computed
    "torn",  # infer: the frame was overwritten before the worker had read it
    "worker_lost",  # infer: the worker died or was replaced while computing it
    "model_error",  # worker: the runtime refused the inputs or failed
    "nonfinite",  # infer, actuate: NaN or infinity among logits or values
    "malformed",  # infer, actuate: wrong shape, dtype or structure
    "foreign",  # actuate: a proposal from an agent that is not configured for this actuator
    "estop",  # actuate: the emergency stop is latched
    "disarmed",  # actuate: not armed
    "unknown_action",  # actuate: not in the vocabulary, or not whitelisted
    "range",  # actuate: a value outside its limits
    "confidence",  # actuate: below the agent's floor
    "stale",  # actuate: the observation is older than max_age_ms
    "replayed",  # actuate: an observation not newer than one already acted on
    "rate",  # actuate: more often than min_interval_ms allows
    "slew",  # actuate: a step larger than the slew limit
    "dwell",  # actuate: the action in force has not been held for min_dwell_ms
    "transition",  # actuate: a forbidden change of action
    "outranked",  # actuate: another agent holds the actuator
    "driver",  # actuate: the driver failed to write
]
"""Every reason for which an observation, request or proposal goes no further; each is counted per agent."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """Base of all messages."""

    v: Count = PROTOCOL


# --- frames ------------------------------------------------------------------------------------------------


class FrameReady(Message, frozen=True, kw_only=True):
    """A source has put a frame into the ring ``<source>.<view>``; the pixels stay in the ring.

    ``epoch`` changes when the ring was made anew. In a lock-step world ``after`` is the ``Applied.seq`` the world
    had acted on: the observation must not be decided before that one is in the history.
    """

    view: Annotated[str, msgspec.Meta(max_length=80)]
    epoch: Count
    seq: Count
    sensor_ns: Nanoseconds
    after: Count | None = None


# --- deciding ----------------------------------------------------------------------------------------------


class ActionProposal(Message, frozen=True, kw_only=True):
    """An agent wants an action: a name of its vocabulary, or continuous ``values`` in the actuator's units."""

    agent: Label
    sensor_ns: Nanoseconds
    frame_seq: Count
    action: ActionName | None = None
    values: Values = []
    confidence: float | None = None
    forward_ns: Nanoseconds = 0


class Applied(Message, frozen=True, kw_only=True):
    """What the actuator was told, and why; sent for every write, also for neutral ones.

    ``agent`` is empty when no proposal stands behind the write. ``sensor_ns`` and ``frame_seq`` are those of the
    observation acted on, 0 without one.
    """

    seq: Count
    applied_ns: Nanoseconds
    cause: Literal["proposal", "clamped", "start", "stop", "deadman", "estop", "disarm", "driver"]
    agent: Annotated[str, msgspec.Meta(max_length=32)] = ""
    action: ActionName | None = None
    values: Values = []
    sensor_ns: Nanoseconds = 0
    frame_seq: Count = 0
    forward_ns: Nanoseconds = 0


class Refused(Message, frozen=True, kw_only=True):
    """A proposal the arbiter or the valve did not let through."""

    agent: Label
    reason: Drop
    detail: Text
    sensor_ns: Nanoseconds
    refused_ns: Nanoseconds


class Output(Message, frozen=True, kw_only=True):
    """What the ``simulated`` driver tells its world, as a pin would."""

    seq: Count
    sent_ns: Nanoseconds
    frame_seq: Count
    action: ActionName | None = None
    values: Values = []


class WorldState(Message, frozen=True, kw_only=True):
    """The state of a simulated world, for people to look at; nothing acts on it."""

    tick: Count
    at_ns: Nanoseconds
    points: Annotated[list[int], msgspec.Meta(max_length=2)]
    finished: Annotated[list[int], msgspec.Meta(max_length=64)]
    over: bool
    in_force: ActionName
    late: Count


# --- health ------------------------------------------------------------------------------------------------


class Health(Message, frozen=True, kw_only=True):
    """How a process is doing, sent from its main loop and only there: ``progress`` advances with real work.

    ``counts`` and ``dropped`` map an agent, source or link to its counters since this process started.
    """

    process: Annotated[str, msgspec.Meta(max_length=64)]
    pid: Count
    state: Literal["starting", "running", "waiting", "degraded", "done"]
    progress: Count
    at_ns: Nanoseconds
    detail: Text = ""
    children: Annotated[dict[str, int], msgspec.Meta(max_length=16)] = {}
    counts: Annotated[dict[str, dict[str, int]], msgspec.Meta(max_length=64)] = {}
    dropped: Annotated[dict[str, dict[str, int]], msgspec.Meta(max_length=64)] = {}


# --- local commands ----------------------------------------------------------------------------------------

Operation = Literal["estop", "clear", "arm", "disarm", "status"]
AgentChange = Literal["status", "pause", "resume", "priority", "rate", "activate", "rollback"]
CommandId = Annotated[str, msgspec.Meta(min_length=8, max_length=64)]
COMMAND_EXPIRY_MS = 1000
"""How long the command line lets a command wait before it must not run any more."""


class Hello(Message, frozen=True, kw_only=True):
    """First message of a commander: asks for the boot epoch and the clock."""


class Welcome(Message, frozen=True, kw_only=True):
    """Answer to Hello: commands must carry ``epoch`` and expire in the time of ``now_ns``."""

    epoch: Count
    now_ns: Nanoseconds


class Ordered(Message, frozen=True, kw_only=True):
    """What all commands have. Ids are remembered: one sent twice runs once and gets the same answer."""

    id: CommandId
    epoch: Count
    expires_ns: Nanoseconds
    who: Text

    @property
    def asks(self) -> str:
        """What it asks for, for people; two commands that ask for the same have the same."""
        raise NotImplementedError


class Command(Ordered, frozen=True, kw_only=True):
    """A command to an actuator."""

    operation: Operation

    @property
    def asks(self) -> str:
        """The operation."""
        return self.operation


class AgentCommand(Ordered, frozen=True, kw_only=True):
    """A command to infer about an agent.

    ``value``: of ``priority`` (0 to 9) or ``rate`` (decisions a second). ``package``: of ``activate``, one of the
    models folder; empty for the configured one.
    """

    agent: Label
    change: AgentChange
    value: float | None = None
    package: NameOrNone = ""

    @property
    def asks(self) -> str:
        """The change, of whom, to what."""
        value = "" if self.value is None else f"{self.value:g}"
        return " ".join(filter(None, (self.change, self.agent, value, self.package)))


class CommandReply(Message, frozen=True, kw_only=True):
    """Result of a command, with the state after it. ``partial``: in force, but a restart would forget it."""

    id: Annotated[str, msgspec.Meta(max_length=64)]
    status: Literal["done", "partial", "refused"]
    detail: Text
    state: Text


# --- inference workers (Unix SEQPACKET pair, not ZeroMQ) ----------------------------------------------------

Duration = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
"""Milliseconds; not a number is refused."""
DType = Literal["uint8", "int32", "int64", "float32"]
Shape = Annotated[list[Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]], msgspec.Meta(max_length=8)]


MAX_INLINE = 64 * 1024
"""Bytes of an inline tensor; anything larger travels in a ring."""


class InlineTensor(msgspec.Struct, frozen=True, tag_field="type", tag=True):
    """A small tensor, its bytes little-endian and C-contiguous, :data:`MAX_INLINE` at most."""

    dtype: DType
    shape: Shape
    data: Annotated[bytes, msgspec.Meta(max_length=MAX_INLINE)]


class RingFrames(msgspec.Struct, frozen=True, tag_field="type", tag=True):
    """Frames the worker reads from a ring itself, newest first, stacked in that order.

    The frames ``seqs`` of ring ``epoch`` must still be there when the worker has read them.
    """

    ring: Annotated[str, msgspec.Meta(max_length=128)]
    epoch: Count
    seqs: Annotated[list[Count], msgspec.Meta(min_length=1, max_length=64)]


class WorkerHello(Message, frozen=True, kw_only=True):
    """First message of a worker: what it is."""

    kind: Literal["python", "native"]
    versions: Annotated[dict[str, str], msgspec.Meta(max_length=16)]


class LoadModel(Message, frozen=True, kw_only=True):
    """Load the package in folder ``package`` under the name ``model``; answered by ModelLoaded or RunFailed.

    ``manifest_sha256`` is that of the manifest that was verified: the worker loads nothing else, also when it starts
    anew long after.
    """

    model: Name
    package: Annotated[str, msgspec.Meta(max_length=4096)]
    manifest_sha256: Sha256
    threads: Annotated[int, msgspec.Meta(ge=1, le=64)]


class ModelLoaded(Message, frozen=True, kw_only=True):
    """The model is loaded and warm; ``p50_ms``, ``p99_ms`` are its measured forward times in this worker."""

    model: Label
    load_ms: Duration
    p50_ms: Duration
    p99_ms: Duration


class RunModel(Message, frozen=True, kw_only=True):
    """One inference: the inputs in the manifest's order."""

    request: Count
    model: Name
    inputs: Annotated[list[InlineTensor | RingFrames], msgspec.Meta(min_length=1, max_length=16)]


class RunDone(Message, frozen=True, kw_only=True):
    """Outputs in the manifest's order; ``forward_ns`` is the time inside the runtime's execute."""

    request: Count
    model: Label
    outputs: Annotated[list[InlineTensor], msgspec.Meta(max_length=16)]
    forward_ns: Nanoseconds


class RunFailed(Message, frozen=True, kw_only=True):
    """The request (0: the load) did not give a result; ``reason`` says why in the counters' words."""

    request: Count
    model: Label
    reason: Drop
    detail: Text


class WorkerLog(Message, frozen=True, kw_only=True):
    """A line of the worker or of the runtime below it."""

    level: Literal["debug", "info", "warning", "error"]
    text: Text


# --- topics ------------------------------------------------------------------------------------------------


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of link: what it carries and how it behaves.

    Attributes:
        carries: message types accepted; any other is refused by name.
        binds: which end owns the endpoint. The end that is alone binds, the many connect.
        max_bytes: larger messages are refused before they are decoded.
        queue: messages kept for a slow reader. Frames are never queued: a FrameReady only wakes the reader,
            who takes the newest frame from the ring.
        welcome: the newest message of this type is what a new reader gets first, so that one who joins late, or
            again, knows what holds.
    """

    carries: tuple[type[Message], ...]
    binds: Literal["publisher", "subscriber"] = "publisher"
    max_bytes: int = 4096
    queue: int = 64
    welcome: type[Message] | None = None


TOPICS: dict[str, Topic] = {
    "frame": Topic(carries=(FrameReady,), max_bytes=512, queue=8),
    "proposal": Topic(carries=(ActionProposal,), binds="subscriber"),
    "applied": Topic(carries=(Applied, Refused), queue=512, welcome=Applied),
    "output": Topic(carries=(Output,), binds="subscriber"),
    "world": Topic(carries=(WorldState,)),
    "health": Topic(carries=(Health,), max_bytes=32 * 1024),
}
"""Publish/subscribe links; an endpoint is ``<topic>@<instance>`` in the runtime folder."""

DESKS: dict[str, Topic] = {
    "command": Topic(carries=(Hello, Command), binds="subscriber", queue=16),
    "agents": Topic(carries=(Hello, AgentCommand), binds="subscriber", queue=16),
}
"""What command sockets accept (request/reply): actuate's ``command@<actuator>`` and infer's ``agents@infer``."""
REPLIES = Topic(carries=(Welcome, CommandReply), queue=16)
"""What a commander gets back."""
TO_WORKER = Topic(carries=(LoadModel, RunModel), max_bytes=128 * 1024)
"""What an inference worker accepts on its socket pair."""
FROM_WORKER = Topic(carries=(WorkerHello, ModelLoaded, RunDone, RunFailed, WorkerLog), max_bytes=128 * 1024)
"""What an inference worker sends."""
