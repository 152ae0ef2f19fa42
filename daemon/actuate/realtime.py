"""Real-time priority for the process of an actuator: asked for, bounded, and done without where it is refused.

A loop that never sleeps would, at that priority, freeze the machine. So the kernel's own limit comes first: it ends the
process after :data:`CPU_LIMIT_US` of the processor without a pause, whoever starts it again begins with neutral, and
where the limit is refused the priority is not asked for. Watchdogs of supervisors need no higher priority then.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal

PRIORITY = 10
"""SCHED_FIFO, 1 to 99: above everything ordinary, below the kernel's interrupt threads (50)."""
CPU_LIMIT_US = 200_000
"""RLIMIT_RTTIME. A turn of the valve takes well under a millisecond."""
_MCL_CURRENT = 1
"""Of mlockall(2). Not MCL_FUTURE: under a limit, that makes later allocations fail."""
_REMEDY = (
    "a service gets it from its unit (reflexd's generator writes it for realtime = true); a user by "
    f"/etc/security/limits.d: `USER - rtprio {PRIORITY}` and `USER - memlock unlimited`, and logging in anew"
)


def become_realtime() -> list[str]:
    """Ask for a limit on time without a pause, for real-time priority and for staying in memory.

    It is for this thread and those it starts, not for the processes it starts.

    Returns:
        What was refused, for people; all else was granted. The process goes on in any case.
    """
    refused = []
    try:
        _limit()
        parameters = os.sched_param(PRIORITY)
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, parameters)
    except (OSError, ValueError) as error:  # ValueError: the hard limit is lower, and may not be raised
        refused.append(f"ordinary priority instead of real-time: {_text(error)}: {_REMEDY}")
    try:
        _stay_in_memory()
    except OSError as error:
        refused.append(f"memory may be swapped out: mlockall: {_text(error)}: {_REMEDY}")
    return refused


def _limit() -> None:
    """Let the kernel end the process, its Python stack in the log, before it keeps the processor for too long."""
    faulthandler.register(signal.SIGXCPU, chain=True)
    resource.setrlimit(resource.RLIMIT_RTTIME, (CPU_LIMIT_US, 2 * CPU_LIMIT_US))


def _stay_in_memory() -> None:
    """Keep what start-up has made in memory: a page that comes back from a card is tens of milliseconds late."""
    if ctypes.CDLL(None, use_errno=True).mlockall(_MCL_CURRENT):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _text(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
