"""The configuration file: TOML to frozen structs, every key, value and limit checked before anything starts.

``docs/configuration.md`` is generated from the docstrings here.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from daemon.messages import ActionName, Name
from daemon.outputs import OUTPUT_KINDS, Output
from daemon.pins import Chip
from daemon.section import Section
from daemon.sources import SOURCE_TABLES, Rate, Source, SourceTable
from daemon.worlds import Game

Probability = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Millis = Annotated[float, msgspec.Meta(gt=0.0, le=60_000.0)]
MillisOrOff = Annotated[float, msgspec.Meta(ge=0.0, le=60_000.0)]
Priority = Annotated[int, msgspec.Meta(ge=0, le=9)]
Limit = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
Brightness = Annotated[float, msgspec.Meta(ge=0.0, le=255.0)]
Step = Annotated[float, msgspec.Meta(gt=0.0, le=1e9)]
WorkerKind = Literal["native", "python"]
WorkerWanted = Literal["auto", WorkerKind]
DEFAULT_PORT = 7390
"""Of the gateway's requests."""


class ConfigError(ValueError):
    """A configuration that must not run; names file, key, value and what was expected."""


class World(Section, frozen=True, kw_only=True):
    """``[worlds.NAME]``: a simulated world, a process of its own. It is a source and moves by an actuator.

    Attributes:
        game: which world; ``pong`` needs the extra ``pong``.
        seed: draws the opening and the disturbance; the next game takes the next seed.
        games: stop after this many games, 0 for never.
        clock: ``real`` runs 60 emulator frames a second whatever the daemon does; ``lockstep`` waits for the
            action of each frame, so equal seeds give equal runs.
        start: ``first_action`` holds the opening picture until an action comes, as a console waits for its player;
            ``at_once`` plays on while the daemon is still loading.
        sticky: probability that the emulator repeats its previous action in a frame.
        failsafe_ms: without a new output for this long the world falls back to neutral, as a servo controller does
            when its signal is gone.
    """

    game: Game
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    games: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1
    clock: Literal["real", "lockstep"] = "real"
    start: Literal["first_action", "at_once"] = "first_action"
    sticky: Probability = 0.0
    failsafe_ms: Millis = 250.0


class Agent(Section, frozen=True, kw_only=True):
    """``[agents.NAME]``: a policy that looks at a source and proposes actions for an actuator.

    Attributes:
        package: folder of the model package, relative to this file.
        source: a source or a world.
        actuator: who is to act.
        priority: 0 to 9, 9 the most urgent class, for inference and for the actuator.
        rate_hz: decisions per second at most.
        deadline_ms: a decision must be there this long after the frame; 0 takes one period of rate_hz.
        max_age_ms: the valve refuses an action whose frame is older than this.
        min_confidence: the valve refuses an action whose softmax probability is lower.
        skip_unchanged: no inference on a frame that shows what the last one decided on does: no part of 64x64 is
            brighter or darker by this much (0 to 255; 6 is above the noise of most cameras). The decision before it is
            proposed again; every 21st such frame is decided on. 0 turns it off. Not for a lock-step world.
    """

    package: str
    source: Name
    actuator: Name
    priority: Priority = 5
    rate_hz: Rate = 30.0
    deadline_ms: MillisOrOff = 0.0
    max_age_ms: Millis = 100.0
    min_confidence: Probability = 0.0
    skip_unchanged: Brightness = 0.0

    @property
    def period_ms(self) -> float:
        """Shortest time between two decisions, ms."""
        return 1e3 / self.rate_hz

    @property
    def effective_deadline_ms(self) -> float:
        """Time from frame to decision allowed, ms."""
        return self.deadline_ms or self.period_ms


class Manual(Section, frozen=True, kw_only=True):
    """``[manual.NAME]``: somebody with a joystick, through the gateway. An agent like any other for arbiter and valve.

    What is sent stays in force for the actuator's ``deadman_ms`` at most: it has to be sent again and again.

    Attributes:
        actuator: who is to act.
        priority: 0 to 9; above the agents' it takes the actuator from them while it is used.
        max_age_ms: what took longer from the gateway to the valve is refused; others get the actuator when nothing has
            been sent for so long.
    """

    actuator: Name
    priority: Priority = 9
    max_age_ms: Millis = 200.0


class Channel(Section, frozen=True, kw_only=True):
    """One continuous channel of an actuator: ``minimum`` <= value <= ``maximum`` in ``unit``.

    Attributes:
        unit: what a value of 1 means, for people.
        minimum, maximum: limits.
        neutral: the safe value.
        slew_per_s: largest change per second; absent, none.
        clamp: true brings a value back to the limits (``clamped``) instead of refusing it.
    """

    unit: str
    minimum: Limit
    maximum: Limit
    neutral: Limit
    slew_per_s: Step | None = None
    clamp: bool = False


class Actuator(Section, frozen=True, kw_only=True):
    """``[actuators.NAME]``: what acts, what it may do, and when it must be neutral. One process.

    Attributes:
        driver: ``gpio`` moves pins (docs/gpio.md), ``simulated`` a world, ``log`` only writes down.
        world: the world that ``simulated`` moves.
        outputs: what hangs on the pins that ``gpio`` moves.
        chip: label of the GPIO chip that has them; ``auto`` takes the header of whatever Raspberry Pi it is.
        actions: the vocabulary, for discrete actions.
        neutral: the safe action of the vocabulary.
        channels: limits per channel, for continuous actions.
        deadman_ms: without an applied action for this long the actuator goes neutral.
        arm_on_start: true arms without a command, at every start.
        after_deadman: ``disarm`` asks for a new arm command after a dead-man, ``resume`` goes on with the next
            good action.
        hold_ms: a winning agent keeps the actuator at least this long against agents of lower priority.
        min_interval_ms: shortest time between two applied actions.
        min_dwell_ms: shortest time an action stays before another one.
        forbidden: pairs ``[from, to]`` of actions that must not follow one another.
        realtime: true asks for real-time priority and for memory that is not swapped out, so that neutral comes in time
            on a machine that is busy; where that is refused, the process says so and goes on without.
    """

    driver: Literal["gpio", "simulated", "log"]
    world: Name | None = None
    outputs: Annotated[list[Output], msgspec.Meta(max_length=26)] = []
    chip: Chip = "auto"
    actions: Annotated[list[ActionName], msgspec.Meta(max_length=4096)] = []
    neutral: ActionName | None = None
    channels: Annotated[list[Channel], msgspec.Meta(max_length=32)] = []
    deadman_ms: Millis
    arm_on_start: bool = False
    after_deadman: Literal["disarm", "resume"] = "disarm"
    hold_ms: MillisOrOff = 0.0
    min_interval_ms: MillisOrOff = 0.0
    min_dwell_ms: MillisOrOff = 0.0
    forbidden: list[tuple[ActionName, ActionName]] = []
    realtime: bool = False


class Infer(Section, frozen=True, kw_only=True):
    """``[infer]``: the workers that run models.

    Attributes:
        worker: which kind: ``auto`` takes the native worker if one is built that fits this daemon, the Python worker
            otherwise; ``native`` and ``python`` take that one or nothing.
        workers: worker processes.
        threads: threads of a worker's pool; workers x threads beyond the cores is refused.
        admission: ``refuse`` ends with the numbers when the agents cannot meet their deadlines, ``degrade``
            warns and goes on.
        trial_s: a model that was activated while the agent acts is watched for so long, and taken back if it turns out
            worse.
        ageing_ms: an agent below the top class rises by one class for each such time it has waited.
    """

    worker: WorkerWanted = "auto"
    workers: Annotated[int, msgspec.Meta(ge=1, le=16)] = 1
    threads: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    admission: Literal["refuse", "degrade"] = "refuse"
    ageing_ms: Millis = 500.0
    trial_s: Annotated[float, msgspec.Meta(gt=0.0, le=86_400.0)] = 10.0


class Gateway(Section, frozen=True, kw_only=True):
    """``[gateway]``: commands, telemetry and logs for clients. Without this table there is no gateway.

    Attributes:
        listen: address that clients on other machines connect to, ``0.0.0.0`` for all of this machine's; empty: only
            clients on this machine, through sockets in the runtime folder. Over the network there is no way in
            without a key of the allow-list (docs/gateway.md).
        port: TCP port of requests; streams have the next one.
        clients: the allow-list, relative to this file; by default ``clients.toml`` in the state folder.
        metrics_port: TCP port of figures for Prometheus on 127.0.0.1, which whoever is on this machine may read; 0 for
            none. Needs the extra ``metrics``.
    """

    listen: Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z.:_-]*\Z", max_length=64)] = ""
    port: Annotated[int, msgspec.Meta(ge=1, le=65534)] = DEFAULT_PORT
    clients: str = ""
    metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


class Daemon(Section, frozen=True, kw_only=True):
    """``[daemon]``: where the run lives.

    Attributes:
        name: names the runtime and state folders; one daemon of a name runs at a time.
        runtime: folder for sockets, locks and frame rings, on a tmpfs; by default below ``$XDG_RUNTIME_DIR`` or
            ``/dev/shm``.
        state: folder for what outlives a run: the e-stop latches and the files of ``log`` drivers
            (``ACTUATOR.jsonl``); by default below ``~/.local/state/reflexd``.
    """

    name: Name
    runtime: str = ""
    state: str = ""


class Config(Section, frozen=True, kw_only=True):
    """The whole file."""

    daemon: Daemon
    worlds: dict[Name, World] = {}
    sources: dict[Name, Source] = {}
    agents: Annotated[dict[Name, Agent], msgspec.Meta(min_length=1, max_length=16)]
    actuators: Annotated[dict[Name, Actuator], msgspec.Meta(min_length=1, max_length=16)]
    infer: Infer = Infer()
    gateway: Gateway | None = None
    manual: Annotated[dict[Name, Manual], msgspec.Meta(max_length=16)] = {}


def parse(path: Path) -> Config:
    """Read the file and check it against the schema alone.

    Raises:
        ConfigError: naming file, key, value and what was expected.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: expected a configuration file: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    try:
        return msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_explain(str(error), values)}") from None


_TABLES: dict[str, Any] = {
    "daemon": Daemon,
    "worlds": World,
    "sources": Source,
    "agents": Agent,
    "actuators": Actuator,
    "infer": Infer,
    "gateway": Gateway,
    "manual": Manual,
}


def _explain(error: str, values: Any) -> str:
    """Turn msgspec's ``problem - at `$.a[...].b``` into ``a.name.b = value: problem``."""
    problem, _, where = error.partition(" - at ")
    keys = re.findall(r"\w+|\.\.\.", where.removeprefix("`key` in "))
    whole = values
    for i, key in enumerate(keys):
        if key == "...":
            keys[i] = key = _culprit(whole, values, error)
        values = values[int(key)] if isinstance(values, list) else values[key]
    if where.startswith("`key`"):
        return f"{'.'.join(keys)}: name {_culprit(whole, values, error)!r}: {problem}"
    if accepted := _accepted(problem, keys, whole):
        problem = accepted
    path = ".".join(keys) or "top level"
    return f"{path}: {problem}" if isinstance(values, dict) else f"{path} = {values!r:.80}: {problem}"


def _accepted(problem: str, keys: list[str], values: Any) -> str:
    """The problem in words that name what would be accepted there, where msgspec's do not."""
    kinds = OUTPUT_KINDS if keys[2:3] == ["outputs"] else SOURCE_TABLES
    if problem.startswith("Invalid value"):
        return f"expected one of {', '.join(kinds)}"
    if problem.startswith("Invalid enum value"):
        return f"expected one of {', '.join(get_args(_fields(keys, values)[keys[-1]]))}"
    if "unknown field" in problem:
        return f"{problem}; expected one of {', '.join(_fields(keys, values))}"
    if "required field `kind`" in problem:
        return f"{problem}; expected one of {', '.join(kinds)}"
    return ""


def _fields(keys: list[str], values: Any) -> dict[str, Any]:
    """Key to type of the table that ``keys`` lead into."""
    return {field.name: field.type for field in msgspec.structs.fields(_table(keys, values))}


def _table(keys: list[str], values: Any) -> type[Section]:
    if not keys:
        return Config
    if "channels" in keys:
        return Channel
    if keys[2:3] == ["outputs"]:
        return OUTPUT_KINDS[values["actuators"][keys[1]]["outputs"][int(keys[3])]["kind"]]
    if keys[0] == "sources":
        return SOURCE_TABLES.get(values["sources"][keys[1]].get("kind"), SourceTable)
    table: type[Section] = _TABLES[keys[0]]
    return table


def _culprit(whole: Any, table: dict[str, Any], error: str) -> str:
    """The name in ``table``, a part of ``whole``, that the error is about: msgspec's path leaves names out.

    It is the one that gives the same error when it is there alone.
    """
    for name in list(table):
        others = {key: table.pop(key) for key in list(table) if key != name}
        try:
            msgspec.convert(whole, Config)
        except msgspec.ValidationError as again:
            if str(again) == error:
                return name
        finally:
            table.update(others)
    raise AssertionError("one of them was refused a moment ago")
