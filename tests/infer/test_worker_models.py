"""Models in a worker: several at once, loaded anew, refused by name; what was loaded before goes on working."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from daemon.messages import ModelLoaded
from daemon.package import MANIFEST_FILE, MODEL_FILE
from tests.infer.peer import Peer, action, failure, history, inline, load_message
from tests.infer.programs import FOREIGN, foreign, with_program
from tests.packages import ACTIONS, pin_hashes, rewrite_manifest, tiny_package
from tests.peers import BUILD_LIMIT_S

pytestmark = pytest.mark.timeout(BUILD_LIMIT_S)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return tiny_package(tmp_path / "package")


def test_two_models_work_side_by_side(peer: Peer, package: Path) -> None:
    assert isinstance(peer.load("second", package, threads=2), ModelLoaded)
    for third in range(3):
        assert action(peer.run(inline(third, 1), history(), model="second")) == ACTIONS[third]
        peer.works()


def test_a_name_loaded_anew_is_the_new_model(peer: Peer, package: Path, tmp_path: Path) -> None:
    assert isinstance(peer.load("again", package), ModelLoaded)
    assert action(peer.run(inline(2, 1), history(), model="again")) == "RIGHT"
    assert isinstance(peer.load("again", tiny_package(tmp_path / "next", stack=2)), ModelLoaded)
    assert action(peer.run(inline(2, 2), history(), model="again")) == "RIGHT"
    assert "[1, 1, 16, 16]" in failure(peer.run(inline(2, 1), history(), model="again"), "malformed")


def test_a_load_that_fails_leaves_the_model_of_that_name_as_it_was(peer: Peer, package: Path) -> None:
    assert isinstance(peer.load("kept", package), ModelLoaded)
    with_program(package, (package / MODEL_FILE).read_bytes()[:1000])
    failure(peer.load("kept", package), "model_error")
    assert action(peer.run(inline(0, 1), history(), model="kept")) == "LEFT"


def test_an_unknown_model_and_a_folder_without_a_package_are_answered(peer: Peer, tmp_path: Path) -> None:
    assert "other is not loaded" in failure(peer.run(inline(0), history(), model="other"), "model_error")
    for folder in (tmp_path, tmp_path / "nowhere", Path("/proc/self"), Path("/dev/null")):
        assert "manifest" in failure(peer.load("bad", folder), "model_error")
    peer.works()


def test_only_what_was_verified_is_loaded(peer: Peer, package: Path) -> None:
    verified = load_message("changed", package)
    weights = bytearray((package / MODEL_FILE).read_bytes())
    weights[len(weights) // 2] ^= 1
    (package / MODEL_FILE).write_bytes(weights)
    assert "sha256" in failure(peer.ask(verified), "model_error")
    (package / MODEL_FILE).write_bytes(weights[:-1])
    assert "truncated or foreign" in failure(peer.ask(verified), "model_error")
    (package / MANIFEST_FILE).write_text((package / MANIFEST_FILE).read_text() + " ")
    assert "not the verified one" in failure(peer.ask(verified), "model_error")
    peer.works()


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_program_is_refused_with_names(peer: Peer, package: Path, name: str) -> None:
    detail = failure(peer.load("foreign", with_program(package, foreign(name))), "model_error")
    for complaint in FOREIGN[name]:
        assert complaint in detail, detail
    peer.works()


def test_a_program_unlike_its_manifest_is_refused(peer: Peer, package: Path) -> None:
    inputs = msgspec.json.decode((package / MANIFEST_FILE).read_bytes())["inputs"]
    inputs[1] |= {"shape": [1, 5]}
    rewrite_manifest(package, inputs=inputs)
    detail = failure(peer.load("unlike", package), "model_error")
    assert "input history: the manifest says int64 [1, 5], the program int64 [1, 4]" in detail


def test_a_manifest_of_another_kind_is_refused(peer: Peer, package: Path) -> None:
    rewrite_manifest(package, colour="blue")
    assert "colour" in failure(peer.load("blue", package), "model_error")


def test_goldens_that_do_not_fit_are_refused(peer: Peer, package: Path) -> None:
    with (package / "goldens.bin").open("ab") as file:
        file.write(b"\0")
    pin_hashes(package)
    assert "goldens" in failure(peer.load("short", package), "model_error")
    peer.works()


def test_a_package_that_is_gone_after_its_load_is_not_missed(peer: Peer, package: Path) -> None:
    """The program is in the worker's memory, or mapped from a file that lives on."""
    assert isinstance(peer.load("gone", package), ModelLoaded)
    shutil.rmtree(package)
    assert action(peer.run(inline(1, 1), history(), model="gone")) == "STAY"
