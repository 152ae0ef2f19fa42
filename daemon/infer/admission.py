"""Whether a set of agents can meet its deadlines on the workers it has, from measured latencies. Pure.

The bound is that of non-preemptive fixed-priority scheduling (George, Rivierre, Spuri 1996): an agent waits at most
for the longest inference of a lower class that has just begun, and for every inference of its own or a higher class
that arrives until it starts. With several workers the interference is shared among them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from daemon.config import Config

CHAIN_MS = 3.0
"""What capture, queues, decode and valve take around an inference, ms: the measured p99 of a Python chain."""
_ROUNDS = 1000


def admit(config: Config, p99_ms: Mapping[str, float]) -> list[str]:
    """Complaints about a set of agents, with the numbers; none when it can work.

    Args:
        config: the configuration.
        p99_ms: measured p99 forward time per agent, in the real worker; agents left out do not run.
    """
    workers, threads, cores = config.infer.workers, config.infer.threads, os.cpu_count() or 1
    complaints = []
    if workers * threads > cores:
        complaints.append(f"infer: {workers} workers x {threads} threads on {cores} cores: lower one of them")
    load = sum(time / config.agents[agent].period_ms for agent, time in p99_ms.items())
    if load > workers:
        complaints.append(f"infer: the agents need {load:.2f} of {workers} workers: lower rate_hz or leave one out")
        return complaints
    for agent in p99_ms:
        response, allowed = response_ms(config, p99_ms, agent), config.agents[agent].effective_deadline_ms
        if response > allowed:
            complaints.append(
                f"agents.{agent}: may take {response:.1f} ms, its deadline is {allowed:.1f} ms "
                f"(own inference {p99_ms[agent]:.1f}): raise deadline_ms or its priority, or lower other rates"
            )
    return complaints


def response_ms(config: Config, p99_ms: Mapping[str, float], agent: str) -> float:
    """Longest time from a frame of ``agent`` to its applied action, ms; infinite if there is no bound."""
    priority = config.agents[agent].priority
    lower = [time for other, time in p99_ms.items() if config.agents[other].priority < priority]
    rivals = [
        (time, config.agents[other].period_ms)
        for other, time in p99_ms.items()
        if other != agent and config.agents[other].priority >= priority
    ]
    blocking = max(lower, default=0.0)
    wait = blocking
    for _ in range(_ROUNDS):
        interference = sum((math.floor(wait / period) + 1) * time for time, period in rivals)
        grown = blocking + interference / config.infer.workers
        if grown <= wait:
            return CHAIN_MS + wait + p99_ms[agent]
        wait = grown
    return math.inf
