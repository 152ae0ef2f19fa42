"""A bound on the memory of the gateway, whatever its clients do."""

from __future__ import annotations

import resource

MEMORY_BYTES = 512 * 1024 * 1024
"""Data of this process; it has some 60 MiB at rest, and needs less than half of the bound with everything kept full."""


def bound_memory() -> None:
    """Let the kernel refuse more: ZeroMQ closes the connection that needs it, or the process ends and is started anew.

    ZeroMQ bounds each part of a message and the number of whole messages that wait, not the parts of one message: what
    a client sends that never comes to the last one is otherwise kept until the control loop has no memory any more.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(hard, MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # nothing to be learned from half a gigabyte of a client's
