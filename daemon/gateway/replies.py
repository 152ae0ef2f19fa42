"""Replies put together. Pure."""

from __future__ import annotations

from daemon.remote import Outcome, Outcomes, Reason, Reply, Request, Result


def done(request: Request, result: Result) -> Reply:
    """What was asked for."""
    return Reply(id=request.id, status="done", result=result)


def failed(request: Request, detail: str) -> Reply:
    """Tried, and not done."""
    return refused(request, "failed", detail)


def refused(request: Request, reason: Reason, detail: str) -> Reply:
    """Not done; ``reason`` for programs, ``detail`` for people."""
    return Reply(id=request.id, status="refused", reason=reason, detail=detail[:512])


def together(request: Request, outcomes: list[Outcome]) -> Reply:
    """One reply for several outcomes: done and refused only if all are."""
    states = {outcome.status for outcome in outcomes}
    status = states.pop() if len(states) == 1 else "unknown" if "unknown" in states else "partial"
    return Reply(
        id=request.id,
        status=status,
        reason="failed" if status == "refused" else "",
        detail="; ".join(f"{outcome.target}: {outcome.detail}" for outcome in outcomes)[:512],
        result=Outcomes(outcomes=sorted(outcomes, key=lambda outcome: outcome.target)),
    )
