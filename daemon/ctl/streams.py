"""``logs`` and ``telemetry``: what is there, and with ``-f`` what comes, with no record left out in silence."""

from __future__ import annotations

import argparse
import re
import sys
import time

import msgspec

from daemon.client import Client, Listener, RemoteError
from daemon.ctl.ask import exit_status
from daemon.ctl.devices import DeviceError, chosen
from daemon.ctl.show import record_line
from daemon.follow import Gap, Sequence, follow
from daemon.remote import LEVELS, Backfill, Log, LogRecord, Numbered, Records, StreamName

SILENCE_S = 3.0
"""A gateway that has not even sent a mark for so long is gone."""
_RETRY_S = 1.0
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
    addresses = chosen(options)
    if len(addresses) > 1:
        raise DeviceError("one device at a time: --device NAME instead of --all")
    (address,) = addresses.values()
    with Client(address) as client:
        try:
            listener = Listener(address, [stream]) if options.follow else None
            there = _there(client, options, stream)
            for numbered in there.records:
                _print(numbered, options)
        except RemoteError as error:
            print(f"reflexctl: {error}", file=sys.stderr)
            return exit_status(error)
        sequence = Sequence(there)
        while listener is not None:
            for found in follow(client, listener, stream, SILENCE_S, sequence):
                _print(found, options)
            print(f"reflexctl: nothing heard for {SILENCE_S:g} s: waiting for the gateway", file=sys.stderr)
            time.sleep(_RETRY_S)
    return 0


def _there(client: Client, options: argparse.Namespace, stream: StreamName) -> Records:
    """What there is already."""
    if stream == "log":
        result = client.ask(wanted(options, time.time())).result
    else:
        newest = client.ask(Backfill(stream=stream, first=2**62, last=2**62)).result
        assert isinstance(newest, Records)  # noqa: S101 - what Backfill is answered by
        first = max(newest.oldest, newest.last - options.number + 1)
        result = client.ask(Backfill(stream=stream, first=first, last=newest.last)).result
    assert isinstance(result, Records)  # noqa: S101 - what both are answered by
    if result.more and stream == "log":
        print(f"reflexctl: more than {options.number} records: -n takes up to 1000, or ask for less", file=sys.stderr)
    return result


def wanted(options: argparse.Namespace, now_s: float) -> Log:
    """The query that the options mean."""
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
    elif not isinstance(found.record, LogRecord) or _matches(found.record, options):
        print(msgspec.json.encode(found).decode() if options.json else record_line(found), flush=True)


def _matches(record: LogRecord, options: argparse.Namespace) -> bool:
    return (
        LEVELS.index(record.level) >= LEVELS.index(options.level.upper())
        and options.agent in (None, record.agent)
        and options.process in (None, record.process, record.process.partition("@")[0])
        and (options.grep or "") in record.text
    )
