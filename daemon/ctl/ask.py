"""Commands that are one request and its reply, to one device or to several at the same time."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from daemon.client import TIMEOUT_S, Address, Client, NoGateway, NotLetIn, Refused, RemoteError
from daemon.ctl.devices import chosen
from daemon.ctl.show import reply_lines
from daemon.package import GOLDENS_FILE, MANIFEST_FILE, MODEL_FILE
from daemon.remote import PART_BYTES, Anything, FinishModel, PictureTaken, PushModel, Reply

Work = Callable[[Client], Reply]


class _Done(msgspec.Struct):
    """What came of it on one device."""

    status: int
    text: str


def ask(options: argparse.Namespace, request: Anything, timeout_s: float = TIMEOUT_S) -> int:
    """Ask the chosen devices, show what they say, and return the exit status."""
    return on_each(options, lambda client: client.ask(request, timeout_s))


def on_each(options: argparse.Namespace, work: Work) -> int:
    """Do ``work`` with each of the chosen devices at the same time; the exit status is the worst of all."""
    addresses = chosen(options)
    with ThreadPoolExecutor(len(addresses)) as pool:
        results = list(pool.map(lambda address: _one(address, work, options.json), addresses.values()))
    for name, result in zip(addresses, results, strict=True):
        out = sys.stdout if result.status == 0 else sys.stderr
        for line in result.text.splitlines():
            print(f"{name}: {line}" if name else line, file=out)
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

    def work(client: Client) -> Reply:
        reply = client.ask(request, 4.0)
        picture = reply.result
        assert isinstance(picture, PictureTaken)  # noqa: S101 - what the request is answered by
        out: Path = options.out or Path(f"{options.source}.png")
        fresh = out.with_name(f".{out.name}.{os.getpid()}.new")
        fresh.write_bytes(picture.png)
        fresh.replace(out)
        return msgspec.structs.replace(reply, result=None, detail=f"{out}: {picture.view}")

    return on_each(options, work)


def _one(address: Address, work: Work, as_json: bool) -> _Done:
    try:
        with Client(address) as client:
            reply = work(client)
    except RemoteError as error:
        return _Done(exit_status(error), f"reflexctl: {error}")
    except OSError as error:
        return _Done(1, f"reflexctl: {error}")
    text = msgspec.json.encode(reply).decode() if as_json else "\n".join(reply_lines(reply))
    return _Done(0 if reply.status == "done" else 1, text)


def exit_status(error: RemoteError) -> int:
    """69 (EX_UNAVAILABLE): nobody answers; 77 (EX_NOPERM): not let in, or not allowed; 1 for the rest."""
    if isinstance(error, NotLetIn) or (isinstance(error, Refused) and error.reply.reason == "role"):
        return os.EX_NOPERM
    return os.EX_UNAVAILABLE if isinstance(error, NoGateway) else 1
