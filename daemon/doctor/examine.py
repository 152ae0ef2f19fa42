"""All checks at once, and the page they make."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import msgspec

from daemon.doctor.board import power, temperature, throttling
from daemon.doctor.cameras import cameras
from daemon.doctor.clock import clock
from daemon.doctor.finding import Finding, Status, fail
from daemon.doctor.header import buses, pins, pwm
from daemon.doctor.libraries import libraries
from daemon.doctor.machine import Machine
from daemon.doctor.memory import camera_memory, memory, swap
from daemon.doctor.services import runs, units
from daemon.doctor.setup import Setup, configuration, latches, packages
from daemon.doctor.software import processor, realtime, software, system, worker
from daemon.doctor.storage import file_systems, space, wear

Check = Callable[[Machine, Setup], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    system,
    software,
    processor,
    realtime,
    worker,
    libraries,
    cameras,
    pins,
    pwm,
    buses,
    clock,
    temperature,
    throttling,
    power,
    memory,
    camera_memory,
    swap,
    space,
    file_systems,
    wear,
    runs,
    units,
    configuration,
    packages,
    latches,
)
"""Every check, in the order of the page."""


def examine(machine: Machine, setup: Setup, checks: tuple[Check, ...] = CHECKS) -> list[Finding]:
    """Run the checks, which wait for commands, side by side; return what they found, in their order.

    A check that raises has met what nobody has thought of: that is a finding too, and the others go on.
    """
    with ThreadPoolExecutor(len(checks)) as pool:
        found = pool.map(lambda check: _run(check, machine, setup), checks)
        return [finding for findings in found for finding in findings]


def _run(check: Check, machine: Machine, setup: Setup) -> list[Finding]:
    findings: list[Finding] = []
    try:
        findings.extend(check(machine, setup))
    except Exception as error:  # whatever it is: the page has a line for it
        fix = "the other lines hold; please report this one"
        findings.append(fail(check.__name__, f"this check itself failed: {type(error).__name__}: {error}", fix))
    return findings


def page(findings: list[Finding], width: int = 100) -> str:
    """The findings for people, at most ``width`` columns, except where a word is longer."""
    lines = []
    for finding in findings:
        head = f"{finding.status:4}  {finding.check}: "
        lines += _wrapped(head + finding.found, width)
        lines += _wrapped(f"      -> {finding.fix}", width) if finding.fix else []
    return "\n".join([*lines, summary(findings)])


def summary(findings: list[Finding]) -> str:
    """How many of each kind."""
    counted = Counter(finding.status for finding in findings)
    return ", ".join(f"{counted[status]} {status}" for status in get_args(Status))


def failed(findings: list[Finding]) -> bool:
    """Whether anything keeps reflexd from working."""
    return any(finding.status == "fail" for finding in findings)


def as_json(findings: list[Finding]) -> str:
    """The findings for programs: ``{"ok": ..., "findings": [{"check", "status", "found", "fix"}, ...]}``."""
    return msgspec.json.encode({"ok": not failed(findings), "findings": findings}).decode()


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=" " * 9, break_long_words=False, break_on_hyphens=False)
