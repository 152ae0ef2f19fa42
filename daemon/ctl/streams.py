"""``logs`` and ``telemetry``: what is there, and with ``-f`` what comes, with no record left out in silence."""

from __future__ import annotations

import argparse
import re
import sys
import time
from typing import NoReturn

import msgspec

from daemon.client import Client, Listener, NoGateway, NotLetIn
from daemon.ctl.devices import only_one
from daemon.ctl.show import record_line
from daemon.follow import Gap, Sequence, follow, kept
from daemon.remote import LEVELS, MAX_RECORDS, Log, LogRecord, Numbered, Records, StreamName

SILENCE_S = 1.5
"""Marks come every second: after this long without one it is asked whether it is there, and lets this client in."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str) -> float:
    """``90``, ``90s``, ``10m``, ``2h`` or ``1d`` as seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text}: expected a time such as 90s, 10m, 2h or 1d")
    return float(found[1]) * _UNITS[found[2] or "s"]


def logs(options: argparse.Namespace) -> int:
    """Show the log of one device."""
    return _shown(options, "log")


def telemetry(options: argparse.Namespace) -> int:
    """Show what actuators do and processes say."""
    return _shown(options, "telemetry")


def _shown(options: argparse.Namespace, stream: StreamName) -> int:
    address = only_one(options)
    with Client(address) as client:
        listener = Listener(address, [stream]) if options.follow else None  # before the query: nothing falls between
        there = _there(client, options, stream)
        for numbered in there.records:
            _print(numbered, options)
        if listener is not None:
            _go_on(client, listener, options, stream, Sequence(there))
    return 0


def _go_on(
    client: Client, listener: Listener, options: argparse.Namespace, stream: StreamName, sequence: Sequence
) -> NoReturn:
    """Show what comes, until Ctrl-C or until this client is not let in any more (NotLetIn, Refused)."""
    silences = 0
    while True:
        began_s = time.monotonic()
        for found in follow(client, listener, stream, SILENCE_S, sequence):
            _print(found, options)
        silences = silences + 1 if time.monotonic() - began_s < 2 * SILENCE_S else 1
        try:
            client.hello()
        except NotLetIn:
            raise
        except NoGateway as error:
            _say(f"waiting for the gateway: {error}", silences == 1)
        else:
            _say("the gateway answers, but its stream does not come: is the port after its own open?", silences == 2)


def _say(text: str, now: bool) -> None:
    if now:
        print(f"reflexctl: {text}", file=sys.stderr, flush=True)


def _there(client: Client, options: argparse.Namespace, stream: StreamName) -> Records:
    """What there is already."""
    if stream == "telemetry":
        there = kept(client, stream)
        return kept(client, stream, max(there.oldest, there.last - options.number + 1), there.last)
    result = client.ask(wanted(options, time.time())).result
    assert isinstance(result, Records)  # noqa: S101 - what Log is answered by
    if result.more:
        _say(f"more than {options.number} records: -n takes up to {MAX_RECORDS}, or ask for less", True)
    return result


def wanted(options: argparse.Namespace, now_s: float) -> Log:
    """The query that the options mean; ``now_s`` of ``--since`` itself is since ever, as for all that comes later."""
    since_us = round((now_s - options.since) * 1e6) if options.since else 0
    level = next(level for level in LEVELS if level == options.level.upper())
    return Log(
        since_us=since_us,
        level=level,
        agent=options.agent or "",
        process=options.process or "",
        text=options.grep or "",
        limit=options.number,
    )


def _print(found: Numbered | Gap, options: argparse.Namespace) -> None:
    if isinstance(found, Gap):
        which = f"records {found.first} to {found.last}" if found.last else "records"
        print(f"reflexctl: {which} missing: {found.why}", file=sys.stderr, flush=True)
    elif not isinstance(found.record, LogRecord) or wanted(options, options.since).takes(found.record):
        print(msgspec.json.encode(found).decode() if options.json else record_line(found), flush=True)
