"""The log of a process that systemd runs: to the journal, with the fields by which one searches."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from daemon.notify import Letterbox

SOCKET = "/run/systemd/journal/socket"


def journal_handler(
    process: str, environment: Mapping[str, str] = os.environ, address: str = SOCKET
) -> logging.Handler | None:
    """A handler that writes to the journal; None where stderr does not lead there, or the package is missing.

    The fields are those of ``systemd.journal.JournalHandler`` and ``PROCESS`` (``actuate@paddle``), ``KIND``
    (``actuate``), ``INSTANCE`` (``paddle``); a record may add its own, as ``extra={"AGENT": name}``. A journal that
    has stopped reading loses lines; it never stops the process.

    Args:
        process: ``<kind>@<name>``, or plain ``infer``.
        environment: has ``JOURNAL_STREAM``, which names the journal's end of stderr.
        address: socket of the journal.
    """
    stderr = os.fstat(2)
    if environment.get("JOURNAL_STREAM") != f"{stderr.st_dev}:{stderr.st_ino}":
        return None
    try:
        from systemd.journal import JournalHandler, send

        letterbox = Letterbox(address)
    except (ImportError, OSError):
        return None  # stderr leads there too

    def send_if_read(text: str, /, **fields: Any) -> None:  # a record has a field named message
        if letterbox.has_room():
            send(text, **fields)

    kind, _, instance = process.partition("@")
    fields = {"PROCESS": process, "KIND": kind, "INSTANCE": instance or kind}
    handler: logging.Handler = JournalHandler(
        sender_function=send_if_read, SYSLOG_IDENTIFIER=f"reflexd-{process}", **fields
    )
    return handler
