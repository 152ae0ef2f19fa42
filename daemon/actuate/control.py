"""Arbiter, valve, writer and latch put together: everything an actuator does, short of its sockets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from daemon.actuate import arbiter, state, valve
from daemon.actuate.latch import Latch, LatchError
from daemon.actuate.limits import Limits
from daemon.actuate.verdict import Passed, Refusal
from daemon.actuate.writer import Writer
from daemon.desk import Outcome
from daemon.messages import ActionProposal, Applied, Command, Drop, Refused

RETRY_NS = 50_000_000
"""Pause before a neutral that the driver failed to write is tried again."""
STOP_TRIES = 3
"""How often neutral is tried when the process ends."""
UNKNOWN = "(unknown)"
"""Counts proposals of agents that are not configured, under one name: theirs are not bounded in number."""
DRIVER = "(driver)"
"""Counts neutral writes that failed. No agent can have this name, nor the one above."""


class Control:
    """One actuator, whose driver has been told neutral already.

    Args:
        limits: what is allowed.
        writer: the way to the driver.
        latch: the e-stop latch.
        publish: takes what was applied and refused.
        now_ns: CLOCK_MONOTONIC, here as in every method.
    """

    def __init__(
        self, limits: Limits, writer: Writer, latch: Latch, publish: Callable[[Applied | Refused], None], now_ns: int
    ) -> None:
        self._limits, self._writer, self._latch, self._publish = limits, writer, latch, publish
        self._holding = arbiter.NOBODY
        self._retry_ns = now_ns if writer.failure else None
        self.state = state.initial(limits, now_ns, latch.read())
        self.counts = {agent: {"applied": 0, "clamped": 0} for agent in limits.agents}
        self.dropped: dict[str, Counter[str]] = {}

    def arm(self) -> Outcome:
        """Arm, unless the e-stop is latched."""
        self.state = state.arm(self.state)
        if self.state.estop is not None:
            return Outcome("refused", f"the e-stop is latched: {self.state.estop}: clear it first")
        return Outcome("done", "armed: the next good proposal moves the actuator")

    def describe(self, now_ns: int) -> str:
        """The valve's state and what is wrong with the driver, for people."""
        text = state.describe(self.state, now_ns)
        return f"{text}; {self._writer.trouble}" if self._writer.trouble else text

    # --- time ----------------------------------------------------------------------------------------------

    def watch(self, now_ns: int) -> None:
        """Let the dead-man act, or write neutral again after the driver failed, if due."""
        after = state.deadman(self._limits, self.state, now_ns)
        if after is not None:
            self._rest(after, now_ns)
        elif self._retry_ns is not None and now_ns >= self._retry_ns:
            self._rest(state.neutral(self._limits, self.state, "driver", now_ns), now_ns)

    def due_ns(self) -> int | None:
        """When :meth:`watch` has something to do if nothing else happens."""
        return state.deadman_due_ns(self._limits, self.state) if self._retry_ns is None else self._retry_ns

    def finish(self, now_ns: int) -> bool:
        """Write neutral for the last time; return whether the driver took it."""
        for _ in range(STOP_TRIES):
            self._rest(state.neutral(self._limits, self.state, "stop", now_ns), now_ns)
            if self._retry_ns is None:
                return True
        return False

    # --- proposals -----------------------------------------------------------------------------------------

    def propose(self, received: Sequence[ActionProposal], now_ns: int) -> None:
        """Judge what has arrived since the last call, in order of arrival; at most one of it is applied."""
        current, refused = arbiter.newest(received)
        candidates = []
        for proposal in current:
            verdict = valve.screen(self._limits, self.state, proposal, now_ns)
            if isinstance(verdict, Refusal):
                refused.append((proposal, verdict))
            else:
                candidates.append(verdict)
        decision = arbiter.decide(self._limits, self._holding, candidates, now_ns)
        self._holding = decision.holding
        if decision.winner is not None:
            self._move(decision.winner, now_ns)
        for proposal, refusal in [*refused, *decision.losers]:
            self._refuse(proposal, refusal, now_ns)

    def _move(self, winner: Passed, now_ns: int) -> None:
        verdict = valve.rule(self._limits, self.state, winner, now_ns)
        proposal = winner.proposal
        if isinstance(verdict, Refusal):
            self._refuse(proposal, verdict, now_ns)
            return
        written = self._writer.write(verdict.cause, verdict.setting, proposal)
        if written is None:
            self._refuse(proposal, Refusal("driver", self._writer.failure), now_ns)
            self._rest(state.neutral(self._limits, self.state, "driver", now_ns), now_ns)
            return
        self._publish(written)
        self._retry_ns = None
        self.counts[proposal.agent]["clamped" if verdict.clamped else "applied"] += 1
        self.state = state.applied(self.state, verdict, now_ns)

    def _refuse(self, proposal: ActionProposal, refusal: Refusal, now_ns: int) -> None:
        self._count(proposal.agent if proposal.agent in self._limits.agents else UNKNOWN, refusal.reason)
        self._publish(
            Refused(
                agent=proposal.agent,
                reason=refusal.reason,
                detail=refusal.detail[:512],
                sensor_ns=proposal.sensor_ns,
                refused_ns=now_ns,
            )
        )

    def _count(self, agent: str, reason: Drop) -> None:
        self.dropped.setdefault(agent, Counter())[reason] += 1

    def _rest(self, after: state.State, now_ns: int) -> None:
        """Write neutral and remember ``after``; when the driver fails, try again soon. Whoever held lets go."""
        self.state, self._holding = after, arbiter.NOBODY
        written = self._writer.write(after.cause, after.in_force)
        if written is None:
            self._count(DRIVER, "driver")
            self._retry_ns = now_ns + RETRY_NS
        else:
            self._publish(written)
            self._retry_ns = None

    # --- commands ------------------------------------------------------------------------------------------

    def operate(self, command: Command, now_ns: int) -> Outcome:
        """Carry out a command that is in time and was not answered before."""
        if command.operation == "estop":
            return self._estop(command.who, now_ns)
        if command.operation == "clear":
            return self._clear()
        if command.operation == "arm":
            return self.arm()
        if command.operation == "disarm":
            self._rest(state.disarm(self._limits, self.state, now_ns), now_ns)
            return Outcome("done", f"disarmed; {self._neutral_text()}")
        applied = sum(count for counts in self.counts.values() for count in counts.values())
        refused = sum(reasons.total() for reasons in self.dropped.values())
        return Outcome("done", f"{applied} applied, {refused} refused since start")

    def _estop(self, who: str, now_ns: int) -> Outcome:
        """Neutral first, then the disk, which may take its time; the caller is answered after both."""
        by = "".join(letter if letter.isprintable() else "?" for letter in who) or "somebody"
        self._rest(state.stop(self._limits, self.state, f"by {by}", now_ns), now_ns)
        try:
            self._latch.set(str(self.state.estop))
        except LatchError as error:
            lost = "a restart would forget it: mend the state folder and send estop again"
            detail = f"stopped; {self._neutral_text()}; latched in memory, NOT on disk ({error}): {lost}"
            return Outcome("partial", detail)
        return Outcome("done", f"stopped; {self._neutral_text()}; latched on disk")

    def _clear(self) -> Outcome:
        if self.state.estop is None:  # said without touching the disk, which may take its time, while it moves
            return Outcome("done", "nothing was latched")
        try:
            self._latch.clear()
        except LatchError as error:
            return Outcome("refused", f"still latched: {error}")
        self.state = state.clear(self.state)
        return Outcome("done", "cleared; disarmed until the arm command")

    def _neutral_text(self) -> str:
        return f"neutral NOT written, trying again ({self._writer.failure})" if self._writer.failure else "neutral"
