"""The process table: which processes a plan needs, how each is started, and when each counts as stuck. Pure.

The order of the table is the order of starting and of stopping: actuators come first, so that an output is neutral
before anything can propose to move it, and neutral again before anything else goes away.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from daemon.config import WorkerKind
from daemon.plan import Plan
from daemon.restart import RestartPolicy
from daemon.runtime import RuntimeFolder

START_LIMIT_S = 15.0
"""From start to the first progress."""
PYTHON_START_LIMIT_S = 90.0
"""The same of infer where Python workers load torch, which takes a Pi tens of seconds from a cold SD card."""
STALL_LIMIT_S = 3.0
"""Longest time without progress."""
ACTUATE_STALL_LIMIT_S = 1.0
"""The same for what holds an output: its valve turns many times a second."""
_FRAMES_PER_STALL = 3
"""A source slower than one frame a second may take this many frame periods before it counts as stuck."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a run.

    Attributes:
        identity: ``<kind>@<name>``, or plain ``infer``.
        argv: command line.
        start_limit_s, stall_limit_s: see the constants of this module.
        stops_first: it ends before anything else is told to.
        lock: lock file it holds as long as it lives.
        leaves: sockets and frame rings it makes, to be removed after it.
    """

    identity: str
    argv: tuple[str, ...]
    start_limit_s: float
    stall_limit_s: float
    stops_first: bool
    lock: Path
    leaves: tuple[Path, ...]


def process_table(plan: Plan, runtime: RuntimeFolder, worker: WorkerKind) -> list[Entry]:
    """The processes of a run, in the order in which they start and stop; ``worker`` is what infer will start."""
    config = plan.config
    start_limit_s = PYTHON_START_LIMIT_S if worker == "python" else START_LIMIT_S
    gateways = ["gateway"] if config.gateway else []
    return [
        *(_entry(plan, runtime, "actuate", name, ("proposal", "applied", "command")) for name in config.actuators),
        *(_entry(plan, runtime, "simulate", name, ("frame", "output", "world")) for name in config.worlds),
        *(_entry(plan, runtime, "capture", name, ("frame",)) for name in config.sources),
        _entry(plan, runtime, "infer", "infer", ("agents",), start_limit_s),
        *(_entry(plan, runtime, "gateway", name, ("requests", "stream")) for name in gateways),
    ]


def restart_policy(plan: Plan, kind: str, name: str) -> RestartPolicy:
    """What judges a process that judges itself, under systemd; infer gets the time of either worker."""
    start_limit_s = PYTHON_START_LIMIT_S if kind == "infer" else START_LIMIT_S
    return RestartPolicy(round(start_limit_s * 1e9), round(_stall_limit_s(plan, kind, name) * 1e9))


def _entry(
    plan: Plan,
    runtime: RuntimeFolder,
    kind: str,
    name: str,
    binds: tuple[str, ...],
    start_limit_s: float = START_LIMIT_S,
) -> Entry:
    identity = kind if name == kind else f"{kind}@{name}"
    endpoints = [runtime.endpoint(topic, name) for topic in binds] + [runtime.endpoint("health", identity)]
    rings = [runtime.ring(name, view) for view in plan.views(name)] if kind in ("simulate", "capture") else []
    return Entry(
        identity=identity,
        # -P: a folder named daemon in the current directory must not be taken for ours.
        argv=(sys.executable, "-P", "-m", f"daemon.{kind}", str(plan.path), name),
        start_limit_s=start_limit_s,
        stall_limit_s=_stall_limit_s(plan, kind, name),
        stops_first=kind == "actuate",
        lock=runtime.lock(identity),
        leaves=(*(Path(endpoint.removeprefix("ipc://")) for endpoint in endpoints), *rings),
    )


def _stall_limit_s(plan: Plan, kind: str, name: str) -> float:
    if kind == "actuate":
        return ACTUATE_STALL_LIMIT_S
    if kind == "gateway":
        return STALL_LIMIT_S
    sources = [name] if kind != "infer" else [agent.source for agent in plan.config.agents.values()]
    return max(STALL_LIMIT_S, *(_FRAMES_PER_STALL / plan.frame_rate(source) for source in sources))
