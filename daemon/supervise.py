"""The supervisor: starts the processes of a table, watches them, restarts what fails, and stops them in time."""

from __future__ import annotations

import os
import signal
import time

import zmq

from daemon.bus import Bus, Subscriber
from daemon.child import Child
from daemon.leftovers import Say, remove_leavings
from daemon.messages import Health
from daemon.process import EXIT_CONFIG
from daemon.restart import Phase, RestartPolicy
from daemon.table import Entry

SAFE_WITHIN_S = 0.5
"""What may stop first, the actuators, gets this long before the others are told to stop."""
STOP_WITHIN_S = 1.4
"""From the first SIGTERM until whatever is left is killed."""
DIE_WITHIN_S = 0.3
"""A killed process is gone long before this, unless the kernel holds it (a wedged driver)."""
TURN_NS = 50_000_000
"""Longest time between two looks at the children."""
_STOP_TURN_S = 0.005
_CLEAN_EXITS = (None, 0, -signal.SIGTERM)
"""Not ended; ended by itself; told to stop before it had got as far as listening for that."""


class Watched:
    """One row of the table with its policy and, while it runs, its child."""

    def __init__(self, entry: Entry, bus: Bus) -> None:
        self.entry = entry
        self.policy = RestartPolicy(round(entry.start_limit_s * 1e9), round(entry.stall_limit_s * 1e9))
        self.healths: Subscriber = bus.subscriber("health", entry.identity)
        self.child: Child | None = None
        self.state = ""
        """State of its last Health, empty while there is none of this child."""
        self.last_error = ""
        """The last line its child has logged as an error."""

    @property
    def phase(self) -> Phase:
        """Where the process is in its life."""
        return self.policy.phase


class Supervisor:
    """The children of one run.

    Args:
        table: the processes, in the order in which they start and stop.
        bus: gives the subscriptions to their health.
        poller: gets every descriptor that should wake the caller's loop.
        say: takes each line of log, the children's and its own.
    """

    def __init__(self, table: list[Entry], bus: Bus, poller: zmq.Poller, say: Say) -> None:
        self._poller, self._say = poller, say
        self._lifeline, self._lifeline_end = os.pipe()
        self.watched = {entry.identity: Watched(entry, bus) for entry in table}
        self.failure = ""
        """Why the run cannot go on, once it cannot."""
        self._clean = True
        for watched in self.watched.values():
            poller.register(watched.healths.socket, zmq.POLLIN)

    def turn(self, now_ns: int) -> list[Health]:
        """Look after every child; return the health messages that have come. ``now_ns`` is CLOCK_MONOTONIC."""
        healths = []
        for watched in self.watched.values():
            healths += self._listen(watched, now_ns)
            self._look(watched, now_ns)
            step = watched.policy.due(now_ns)
            if step == "start":
                self._start(watched, now_ns)
            elif step == "kill" and watched.child is not None:
                self._kill(watched, watched.child)
        return healths

    def shutdown(self) -> None:
        """Stop every child in less than 2 s, actuators first, and remove what the run has left if all ended well."""
        start = time.monotonic()
        first = [watched for watched in self.watched.values() if watched.entry.stops_first]
        self._terminate(first, start + SAFE_WITHIN_S)
        self._terminate([watched for watched in self.watched.values() if watched not in first], start + STOP_WITHIN_S)
        self._wait(list(self.watched.values()), start + STOP_WITHIN_S)
        for watched in self._alive():
            assert watched.child is not None  # noqa: S101 - alive
            self._say(f"WARNING run: {watched.entry.identity} did not stop in {STOP_WITHIN_S} s: killed")
            watched.child.kill()
            self._clean = False
        self._wait(list(self.watched.values()), time.monotonic() + DIE_WITHIN_S)
        for watched in self._alive():
            pid = watched.child.pid if watched.child else 0
            self._say(f"ERROR run: {watched.entry.identity} (pid {pid}) does not die: the kernel holds it; see dmesg")
        os.close(self._lifeline)
        os.close(self._lifeline_end)
        if self._clean:
            remove_leavings([watched.entry for watched in self.watched.values()])

    def _alive(self) -> list[Watched]:
        return [watched for watched in self.watched.values() if watched.child is not None]

    def _listen(self, watched: Watched, now_ns: int) -> list[Health]:
        found = []
        for message in watched.healths.receive():
            # A message of an earlier child may still be under way.
            if isinstance(message, Health) and watched.child is not None and message.pid == watched.child.pid:
                watched.state = message.state
                watched.policy.health(now_ns, message.state, message.progress)
                found.append(message)
        return found

    def _look(self, watched: Watched, now_ns: int) -> None:
        """Pass on the child's output and see whether it has ended."""
        child = watched.child
        if child is None:
            return
        status = self._collect(watched, child, now_ns)
        if status is not None:
            self._ended(watched, child.pid, status, now_ns)

    def _collect(self, watched: Watched, child: Child, now_ns: int) -> int | None:
        """Pass on the child's output; once it has ended let go of it and return its exit status."""
        status = child.ended()
        self._pass_on(watched, child.lines(now_ns))
        if (status is not None or child.silent) and child.output in self._poller:
            self._poller.unregister(child.output)
        if status is not None:
            self._pass_on(watched, child.flush())
            child.close()
            watched.child = None
        return status

    def _pass_on(self, watched: Watched, lines: list[str]) -> None:
        for line in lines:
            if line.startswith("ERROR "):
                watched.last_error = line
            self._say(line)

    def _start(self, watched: Watched, now_ns: int) -> None:
        watched.policy.started(now_ns)
        watched.state = watched.last_error = ""
        try:
            child = Child(watched.entry, self._lifeline)
        except OSError as error:
            self._say(f"ERROR run: {watched.entry.identity}: cannot start {watched.entry.argv[0]}: {error.strerror}")
            watched.policy.ended(now_ns)
            return
        watched.child = child
        self._poller.register(child.output, zmq.POLLIN)
        self._say(f"INFO run: {watched.entry.identity} started, pid {child.pid}")

    def _kill(self, watched: Watched, child: Child) -> None:
        limit_s = watched.policy.limit_ns / 1e9
        what = "has not got going" if watched.phase == "starting" else "has not got on"
        self._say(f"ERROR run: {watched.entry.identity} (pid {child.pid}) {what} for {limit_s:g} s: killed")
        watched.policy.killed()
        child.kill()

    def _ended(self, watched: Watched, pid: int, status: int, now_ns: int) -> None:
        identity = watched.entry.identity
        if status == EXIT_CONFIG:
            watched.policy.ended(now_ns, "final")
            self.failure = self.failure or watched.last_error or f"{identity} {describe_exit(status)}: configuration"
        elif status == 0 and watched.state == "done":
            watched.policy.ended(now_ns, "finished")
        else:
            pause_s = watched.policy.ended(now_ns) / 1e9
            when = f"in {pause_s:g} s" if pause_s else "at once"
            self._say(f"ERROR run: {identity} (pid {pid}) {describe_exit(status)}: restarting {when}")

    def _terminate(self, some: list[Watched], deadline_s: float) -> None:
        for watched in some:
            if watched.child is not None:
                watched.child.terminate()
        self._wait(some, deadline_s)

    def _wait(self, some: list[Watched], deadline_s: float) -> None:
        """Reap those of ``some`` that end until the deadline, reading along so that none waits for a full pipe."""
        while any(watched.child for watched in some) and time.monotonic() < deadline_s:
            for watched in self.watched.values():
                if watched.child is not None:
                    status = self._collect(watched, watched.child, time.monotonic_ns())
                    self._clean &= status in _CLEAN_EXITS
            time.sleep(_STOP_TURN_S)


def describe_exit(status: int) -> str:
    """An exit status in words; negative: a signal."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"died by {signal.Signals(-status).name}"
    except ValueError:
        return f"died by signal {-status}"
