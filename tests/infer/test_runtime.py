"""The Python runtime wrapper on a real program: what goes in, what comes out, what is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from daemon.infer.runtime import Array, LoadedModel, RuntimeFailure, in_words, missing_parts, set_threads
from daemon.package import Manifest, read_manifest
from tests.packages import full_frame_package, tiny_package


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_package(tmp_path_factory.mktemp("runtime") / "package", stack=2)


@pytest.fixture(scope="module")
def manifest(package: Path) -> Manifest:
    return read_manifest(package)


@pytest.fixture(scope="module")
def model(package: Path, manifest: Manifest) -> LoadedModel:
    set_threads(1)
    return LoadedModel(package, manifest)


def frames(third: int) -> NDArray[np.uint8]:
    """Dark, with one third of the newest frame bright."""
    picture = np.full((1, 2, 16, 16), 20, np.uint8)
    first, last = ((0, 5), (5, 11), (11, 16))[third]
    picture[0, 0, :, first:last] = 200
    return picture


HISTORY = np.full((1, 4), 3, np.int64)


@pytest.mark.parametrize("third", [0, 1, 2])
def test_the_brightest_third_wins(model: LoadedModel, third: int) -> None:
    [logits] = model.forward([frames(third), HISTORY])
    assert logits.shape == (1, 3)
    assert logits.dtype == np.float32
    assert int(logits.argmax()) == third


def test_outputs_are_the_callers_to_keep(model: LoadedModel) -> None:
    [first] = model.forward([frames(0), HISTORY])
    kept = first.copy()
    model.forward([frames(2), HISTORY])
    np.testing.assert_array_equal(first, kept)
    first[...] = 0
    [again] = model.forward([frames(0), HISTORY])
    np.testing.assert_array_equal(again, kept)


def test_inputs_are_read_from_read_only_memory_and_left_alone(model: LoadedModel) -> None:
    picture = np.frombuffer(frames(1).tobytes(), np.uint8).reshape(1, 2, 16, 16)
    assert not picture.flags.writeable
    assert int(model.forward([picture, HISTORY])[0].argmax()) == 1
    np.testing.assert_array_equal(picture, frames(1))


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ([frames(0)], "expected 2 inputs, got 1"),
        ([HISTORY, frames(0)], "input frames: expected uint8 [1, 2, 16, 16], got int64 [1, 4]"),
        ([frames(0).astype(np.float32), HISTORY], "got float32 [1, 2, 16, 16]"),
        ([frames(0)[0], HISTORY], "got uint8 [2, 16, 16]"),
        ([frames(0).transpose(0, 2, 3, 1), HISTORY], "got uint8 [1, 16, 16, 2]"),
        ([np.zeros((1, 2, 16, 8), np.uint8), HISTORY], "got uint8 [1, 2, 16, 8]"),
        ([np.zeros((1, 2, 16, 32), np.uint8)[..., ::2], HISTORY], "expected C-contiguous memory"),
        ([np.asfortranarray(frames(0)), HISTORY], "expected C-contiguous memory"),
        ([frames(0), HISTORY.astype(np.int32)], "input history: expected int64 [1, 4], got int32 [1, 4]"),
    ],
)
def test_other_inputs_are_refused_by_name_and_the_model_goes_on(
    model: LoadedModel, inputs: list[Array], complaint: str
) -> None:
    with pytest.raises(RuntimeFailure) as refusal:
        model.forward(inputs)
    assert refusal.value.reason == "malformed"
    assert complaint in refusal.value.detail
    assert int(model.forward([frames(2), HISTORY])[0].argmax()) == 2


def test_a_token_outside_the_embedding_is_an_error_not_a_result(model: LoadedModel) -> None:
    with pytest.raises(RuntimeFailure) as refusal:
        model.forward([frames(0), np.full((1, 4), 999, np.int64)])
    assert refusal.value.reason == "model_error"
    assert int(model.forward([frames(0), HISTORY])[0].argmax()) == 0


def test_not_a_number_comes_through_as_it_is(tmp_path: Path) -> None:
    """Refusing it is the decoder's business: here it must only not become a number."""
    package = tiny_package(tmp_path / "package", nan_when_bright=True)
    model = LoadedModel(package, read_manifest(package))
    bright = frames(0)[:, :1].copy()
    assert np.isfinite(model.forward([bright, HISTORY])[0]).all()
    bright[0, 0, 3, 3] = 255
    assert np.isnan(model.forward([bright, HISTORY])[0]).all()


def test_a_whole_camera_picture(tmp_path: Path) -> None:
    package = full_frame_package(tmp_path / "package")
    model = LoadedModel(package, read_manifest(package))
    assert model.forward([np.zeros((1, 480, 640, 3), np.uint8)])[0].shape == (1, 3)


def test_what_the_runtime_lacks_is_named(manifest: Manifest) -> None:
    assert missing_parts(manifest) == []
    greedy = msgspec.structs.replace(manifest, operators=["aten::mean.out", "my::op.out"], backends=["NpuBackend"])
    assert missing_parts(greedy) == ["operator my::op.out", "backend NpuBackend"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("Failed to load method forward, error: 0x:14", "(operator missing in this runtime)"),
        ("method->set_inputs() for method 'forward' failed with error 0x12", "(invalid argument, "),
        ("Failed to load program, error: 0x:23", "(invalid program: "),
        ("something else", "something else"),
        ("error 0x7f", "error 0x7f"),
    ],
)
def test_error_numbers_become_words(error: str, words: str) -> None:
    assert in_words(error).startswith(error)
    assert words in in_words(error)


def test_threads_are_what_was_asked_for() -> None:
    for count in (2, 1):
        set_threads(count)
