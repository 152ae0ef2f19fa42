"""Commands that are one request and its reply, to one device or to several at the same time."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from daemon.client import TIMEOUT_S, Client, NoGateway, NotLetIn, Refused
from daemon.ctl.devices import DeviceError, Place, chosen
from daemon.ctl.show import reply_lines
from daemon.keys import KeyFileError
from daemon.package import GOLDENS_FILE, MANIFEST_FILE, MODEL_FILE
from daemon.remote import PART_BYTES, Anything, FinishModel, PictureTaken, PushModel, Reply
from daemon.wholefile import replace_file

Work = Callable[[Client], Reply]


class _Done(msgspec.Struct):
    """What came of it on one device."""

    status: int
    lines: list[str]
    answered: bool = False
    """The lines are a reply, not what went wrong on the way to one."""


def ask(options: argparse.Namespace, request: Anything, timeout_s: float = TIMEOUT_S) -> int:
    """Ask the chosen devices, show what they say, and return the exit status."""
    return on_each(options, lambda client: client.ask(request, timeout_s))


def on_each(options: argparse.Namespace, work: Work) -> int:
    """Do ``work`` with each of the chosen devices at the same time; the exit status is the worst of all."""
    places = chosen(options)
    with ThreadPoolExecutor(len(places)) as pool:
        results = list(pool.map(lambda name: _one(name, places[name], work, options.json), places))
    for result in results:
        print(*result.lines, sep="\n", file=sys.stdout if result.answered else sys.stderr)
    return max(result.status for result in results)


def push(options: argparse.Namespace) -> int:
    """Push a package in parts."""

    def work(client: Client) -> Reply:
        for file in (MANIFEST_FILE, MODEL_FILE, GOLDENS_FILE):
            data = (options.folder / file).read_bytes()
            for at in range(0, max(1, len(data)), PART_BYTES):
                part = {"type": "PushModel", "package": options.package, "file": file, "offset": at}
                client.ask(msgspec.convert({**part, "data": data[at : at + PART_BYTES]}, PushModel), 10.0)
        return client.ask(FinishModel(package=options.package), 30.0)

    return on_each(options, work)


def save_picture(options: argparse.Namespace, request: Anything) -> int:
    """Ask for a picture and write it to a file."""
    if options.all:
        raise DeviceError("one device at a time: --device NAME instead of --all")

    def work(client: Client) -> Reply:
        reply = client.ask(request, 4.0)
        picture = reply.result
        assert isinstance(picture, PictureTaken)  # noqa: S101 - what the request is answered by
        out: Path = options.out or Path(f"{options.source}.png")
        replace_file(out, picture.png)
        return msgspec.structs.replace(reply, result=None, detail=f"{out}: {picture.view}")

    return on_each(options, work)


def _one(name: str, place: Place, work: Work, as_json: bool) -> _Done:
    prefix = f"{name}: " if name else ""
    try:
        with Client(place.address()) as client:
            reply = work(client)
    except OSError as error:  # of this device alone: a stop for all must reach the others
        return _Done(exit_status(error), [f"{prefix}reflexctl: {error}"])
    lines = [_json(name, reply)] if as_json else [prefix + line for line in reply_lines(reply)]
    return _Done(0 if reply.status == "done" else 1, lines, answered=True)


def _json(name: str, reply: Reply) -> str:
    device = {"device": name} if name else {}
    return msgspec.json.encode({**device, **msgspec.to_builtins(reply)}).decode()


def exit_status(error: OSError) -> int:
    """What ``reflexctl`` ends with.

    69 (EX_UNAVAILABLE): nobody answers; 77 (EX_NOPERM): not let in, or not allowed; 78 (EX_CONFIG): a key that cannot
    be used; 1 for the rest.
    """
    if isinstance(error, KeyFileError):
        return os.EX_CONFIG
    if isinstance(error, NotLetIn) or (isinstance(error, Refused) and error.reply.reason == "role"):
        return os.EX_NOPERM
    return os.EX_UNAVAILABLE if isinstance(error, NoGateway) else 1
