"""What a check says: a finding, one line of the page."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["ok", "warn", "fail", "skip"]


class Finding(msgspec.Struct, frozen=True):
    """One line.

    Attributes:
        check: which check says it.
        status: ``ok``; ``warn`` for what may hurt; ``fail`` for what keeps reflexd or this configuration from working;
            ``skip`` for what is not here or cannot be seen.
        found: what was found.
        fix: what to do; empty where there is nothing to do.
    """

    check: str
    status: Status
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", found)


def warn(check: str, found: str, fix: str) -> Finding:
    """It works, and may not go well."""
    return Finding(check, "warn", found, fix)


def fail(check: str, found: str, fix: str) -> Finding:
    """It does not work like this."""
    return Finding(check, "fail", found, fix)


def skip(check: str, why: str, fix: str = "") -> Finding:
    """Nothing to judge here, and why."""
    return Finding(check, "skip", why, fix)
