"""The worker's C++ decoders and encoders beside the daemon's: golden bytes, and every declared constraint by name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from daemon.messages import FROM_WORKER, TO_WORKER
from daemon.package import MANIFEST_FILE, MAX_MANIFEST_BYTES
from tests.cross.building import ROOT
from tests.cross.declared import cases, packed
from tests.cross.oracle import python_answer
from tests.cross.probe import Probe, What

GOLDEN: dict[str, str] = json.loads((ROOT / "tests/golden/messages.json").read_text())
PONG = (ROOT / "models/pong/package" / MANIFEST_FILE).read_bytes()
CARRIED: list[tuple[What, str]] = [
    *(("w", kind.__name__) for kind in TO_WORKER.carries),
    *(("d", kind.__name__) for kind in FROM_WORKER.carries),
]
CASES = cases()


@pytest.mark.parametrize(("what", "name"), CARRIED)
def test_golden_bytes_come_back_as_they_went(probe: Probe, what: What, name: str) -> None:
    data = bytes.fromhex(GOLDEN[name])
    assert probe.ask(what, data) == (True, data)
    assert not probe.ask("d" if what == "w" else "w", data).accepted


def test_the_manifest_of_pong_is_read_as_the_daemon_reads_it(probe: Probe) -> None:
    answer = python_answer("m", PONG)
    assert answer.accepted
    assert probe.ask("m", PONG) == answer


@pytest.mark.parametrize("name", CASES)
def test_every_constraint_is_enforced_by_name(probe: Probe, name: str) -> None:
    case = CASES[name]
    data = packed(case.what, case.fields)
    python, native = python_answer(case.what, data), probe.ask(case.what, data)
    assert (python.accepted, native.accepted) == (case.accepted, case.accepted), (python.data, native.data)
    if case.accepted:
        assert native == python
    else:
        assert case.word in native.text, native.text


REFUSALS: dict[str, tuple[What, bytes, str]] = {
    "too large": ("w", bytes(131073), "message of 131073 bytes; this link takes 131072 at most"),
    "nothing": ("w", b"", "not a msgpack message: its 0 bytes end within a value"),
    "cut": ("w", bytes.fromhex(GOLDEN["LoadModel"])[:-1], "not a msgpack message: its .* bytes end within a value"),
    "an unused code": ("w", b"\xc1", "not a msgpack message: no value begins as byte 0 does"),
    "more behind it": (
        "w",
        bytes.fromhex(GOLDEN["LoadModel"]) + b"\0",
        "not a msgpack message: 1 bytes follow its end",
    ),
    "no map": ("w", b"\x90", "not a msgpack map but array"),
    "numbers for keys": ("w", b"\x81\x01\x02", "Expected `str` as key, got `int`"),
    "no type": ("w", b"\x80", "message type None; this link carries LoadModel, RunModel"),
    "another type": ("w", packed("w", {"type": "X" * 99}), f"message type '{'X' * 60}'; this link carries"),
    "a type that is no text": ("w", packed("w", {"type": 5}), "message type 5; this link carries"),
    "no version": ("w", packed("w", {"type": "RunModel"}), "RunModel: protocol version None; this build speaks 1"),
    "a later version": (
        "w",
        packed("w", {"type": "RunModel", "v": 2, "inputs": "changed"}),
        "RunModel: protocol version 2; this build speaks 1",
    ),
    "no JSON": ("m", b"{]", "not JSON: byte 2: "),
    "no object": ("m", b"[]", "Expected `object`, got `array`"),
    "a large manifest": ("m", b" " * (MAX_MANIFEST_BYTES + 1), "262145 bytes; a manifest has 262144 at most"),
    "a later manifest": (
        "m",
        PONG.replace(b'"manifest_version": 1', b'"manifest_version": 2'),
        "manifest_version = 2; this build reads 1",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_says_what_was_expected(probe: Probe, name: str) -> None:
    what, data, words = REFUSALS[name]
    answer = probe.ask(what, data)
    assert not answer.accepted
    assert re.search(words, answer.text), answer.text


TEXTS = {
    "ASCII": b"\x00\x7f",
    "two bytes": b"\xc2\x80\xdf\xbf",
    "three bytes": b"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
    "four bytes": b"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
    "overlong, two bytes": b"\xc1\xbf",
    "overlong, three bytes": b"\xe0\x9f\xbf",
    "overlong, four bytes": b"\xf0\x8f\xbf\xbf",
    "a surrogate": b"\xed\xa0\x80",
    "beyond Unicode": b"\xf4\x90\x80\x80",
    "far beyond Unicode": b"\xf5\x80\x80\x80",
    "a cut of two": b"\xc2",
    "a cut of three": b"\xe2\x82",
    "a cut of four": b"\xf0\x9f\x98",
    "a continuation alone": b"\x80",
    "a lead for a continuation": b"\xe2\x82\xc2",
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_utf8_and_what_is_not(probe: Probe, name: str) -> None:
    golden = bytes.fromhex(GOLDEN["WorkerLog"])
    data = golden.replace(b"\xa1x", bytes([0xA0 + len(TEXTS[name])]) + TEXTS[name])
    assert data != golden
    answer = python_answer("d", data)
    assert answer.accepted == (name in {"ASCII", "two bytes", "three bytes", "four bytes"})
    native = probe.ask("d", data)
    assert native == answer if answer.accepted else "Expected `str` in UTF-8 - at `$.text`" in native.text


AROUND_JSON = {
    "a byte order mark": b"\xef\xbb\xbf" + PONG,
    "a zero byte behind it": PONG + b"\0",
    "more behind a zero byte": PONG + b"\0{",
    "a comment": b"/* */" + PONG,
    "a second one": PONG + PONG,
    "a comma": PONG + b",",
    "a form feed": b"\f" + PONG,
    "a final comma": PONG.rstrip()[:-1] + b",}",
    "a name twice, the first no name": PONG.replace(b"{", b'{"name": 5,', 1),
    "a version twice, the first another": PONG.replace(b"{", b'{"manifest_version": 2,', 1),
    "no version": PONG.replace(b'"manifest_version"', b'"manifest_variant"'),
}


@pytest.mark.parametrize("name", AROUND_JSON)
def test_what_is_around_a_manifest_counts(probe: Probe, name: str) -> None:
    answer = python_answer("m", AROUND_JSON[name])
    assert answer.accepted == (name == "a version twice, the first another")
    assert probe.ask("m", AROUND_JSON[name]).accepted == answer.accepted


ROOM = 131_000
GREEDY: dict[str, tuple[What, bytes]] = {
    "many empty arrays": ("w", b"\xdd" + ROOM.to_bytes(4, "big") + b"\x90" * ROOM),
    "many nothings in an ignored field": (
        "w",
        bytes.fromhex(GOLDEN["LoadModel"]).replace(b"\x86", b"\x87", 1)
        + b"\xa1x\xdd"
        + (ROOM - 1000).to_bytes(4, "big")
        + b"\xc0" * (ROOM - 1000),
    ),
    "arrays that claim to be huge": ("w", b"\xdd\xff\xff\xff\xff" * (ROOM // 5)),
    "maps that claim to be huge": ("w", b"\xdf\xff\xff\xff\xff\xa0" * (ROOM // 6)),
    "a text that claims to be huge": ("w", b"\xdb\xff\xff\xff\xff"),
    "deep nesting": ("w", b"\x91" * ROOM),
    "deep nesting in JSON": ("m", b"[" * MAX_MANIFEST_BYTES),
    "many empty arrays in JSON": ("m", b"[" + b"[]," * 80_000 + b"[]]"),
    "many empty objects in JSON": ("m", b'{"a":[' + b"{}," * 80_000 + b"{}]}"),
}


@pytest.mark.parametrize("name", GREEDY)
def test_what_claims_to_be_large_costs_no_memory(probe: Probe, name: str) -> None:
    what, data = GREEDY[name]
    before = _memory(probe)
    assert probe.ask(what, data).accepted == python_answer(what, data).accepted
    assert _memory(probe) - before < 32 * 2**20


def _memory(probe: Probe) -> int:
    """Bytes the process has had in memory at most."""
    status = Path(f"/proc/{probe.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
