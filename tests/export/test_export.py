"""Exporting a real policy: what the package holds, what is refused, and that nobody ever sees half a package."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from daemon.export import ExportReport
from daemon.export.recipe import ExportError
from daemon.package import FrameInput, read_goldens, read_manifest, verify_files
from tests import packages

POLICY_HEAD = "import torch\nfrom torch import nn\n"


@dataclasses.dataclass
class Exported:
    model: Path
    report: ExportReport


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    model = packages.tiny_model(tmp_path_factory.mktemp("export") / "tiny", stack=2)
    return Exported(model, packages.export(model))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return packages.tiny_model(tmp_path / "tiny")


def refusal(model: Path, out: Path | None = None) -> str:
    """The text of the refusal; nothing may be left behind."""
    before = {path: path.stat().st_mtime_ns for path in model.rglob("*") if "__pycache__" not in path.parts}
    with pytest.raises(ExportError) as caught:
        packages.export(model, out)
    after = {path: path.stat().st_mtime_ns for path in model.rglob("*") if "__pycache__" not in path.parts}
    assert {path for path in after if path != model} == {path for path in before if path != model}
    return str(caught.value)


def test_the_package_is_what_the_device_reads(exported: Exported) -> None:
    package = exported.report.package
    assert package == exported.model / "package"
    manifest = read_manifest(package)
    verify_files(package, manifest)
    assert manifest == exported.report.manifest
    assert isinstance(manifest.inputs[0], FrameInput)
    assert manifest.frame.offsets_ms == [0.0, -100.0]
    assert manifest.actions == list(packages.ACTIONS)
    assert manifest.parity.samples == 24
    assert manifest.parity.action_agreement == 1.0
    assert manifest.parity.max_abs_error < 1e-5
    assert 0 < manifest.latency.p50_ms <= manifest.latency.p99_ms
    assert manifest.built_with.keys() == {"executorch", "reflexd", "torch"}


def test_operators_and_backends_are_listed_by_name(exported: Exported) -> None:
    manifest = exported.report.manifest
    assert manifest.backends == ["XnnpackBackend"]
    assert "aten::embedding.out" in manifest.operators
    assert manifest.operators == sorted(manifest.operators)
    assert 0.3 < exported.report.delegated < 1.0


def test_goldens_are_recorded_observations_with_obvious_actions(exported: Exported) -> None:
    goldens = list(read_goldens(exported.report.package, exported.report.manifest))
    assert len(goldens) == 8
    for (frames, history), logits in goldens:
        assert frames.shape == (1, 2, 16, 16)
        assert history.dtype == np.int64
        columns = frames[0, 0].astype(np.float64).mean(axis=0)
        brightest = np.argmax([columns[:5].mean(), columns[5:11].mean(), columns[11:].mean()])
        assert np.argmax(logits) == brightest


def test_the_report_says_what_was_made(exported: Exported) -> None:
    lines = "\n".join(exported.report.lines())
    for part in ("tiny", "XnnpackBackend", "aten::embedding.out", "24 cases", str(exported.report.package)):
        assert part in lines


def test_exporting_again_replaces_the_package_and_gives_the_same_program(exported: Exported) -> None:
    again = packages.export(exported.model)
    assert again.manifest.model == exported.report.manifest.model
    assert again.manifest.goldens == exported.report.manifest.goldens
    assert sorted(path.name for path in again.package.iterdir()) == ["goldens.bin", "manifest.json", "model.pte"]
    assert not [path for path in exported.model.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("def load():\n    return 1\n", "load() returned int, expected torch.nn.Module"),
        ("def load():\n    return nn.Linear(2, 2)\n", "in training mode; return policy.eval()"),
        ("def lood():\n    return 1\n", "AttributeError"),
        ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
    ],
)
def test_a_policy_that_cannot_be_loaded_is_refused(model: Path, body: str, complaint: str) -> None:
    (model / "policy.py").write_text(POLICY_HEAD + body)
    text = refusal(model)
    assert text.startswith(f"{model / 'policy.py'}: ")
    assert complaint in text


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        ("logits[:, :2]", "expected float32 [1, 3], got float32 [1, 2]"),
        ("logits.double()", "expected float32 [1, 3], got float64 [1, 3]"),
        ("(logits, logits)", "forward returned tuple, expected one tensor"),
        ("logits * float('nan')", "not finite on a recorded observation"),
        ("logits if float(logits.sum()) > 0 else -logits", "torch.export (strict) failed"),
        ("nn.functional.linear(frames, history)", "forward fails on a recorded observation"),
    ],
)
def test_an_output_outside_the_contract_is_refused(model: Path, result: str, complaint: str) -> None:
    path = model / "policy.py"
    path.write_text(path.read_text().replace("return logits", f"return {result}"))
    assert complaint in refusal(model)


def test_a_program_that_acts_otherwise_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with packages.quiet():
        from daemon.export import policy

    honest = policy.run_eager
    monkeypatch.setattr(policy, "run_eager", lambda *given: -honest(*given))
    text = refusal(model)
    assert "action agreement 0.0000 (at least 0.995)" in text
    assert "nothing was written" in text


def _float_frames(arrays: dict[str, np.ndarray]) -> None:
    arrays["frames"] = arrays["frames"].astype(np.float32) / 255


def _channels_last(arrays: dict[str, np.ndarray]) -> None:
    arrays["frames"] = np.asfortranarray(arrays["frames"])


def _short_history(arrays: dict[str, np.ndarray]) -> None:
    arrays["history"] = arrays["history"][:5]


def _strange_token(arrays: dict[str, np.ndarray]) -> None:
    arrays["history"][3, 1] = 9


def _renamed(arrays: dict[str, np.ndarray]) -> None:
    arrays["images"] = arrays.pop("frames")


def _batch_of_one(arrays: dict[str, np.ndarray]) -> None:
    arrays["frames"] = arrays["frames"][:, None]


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_float_frames, "frames: expected uint8, found float32: scaling belongs into the policy's forward"),
        (_channels_last, "frames: expected C order, found Fortran order"),
        (_short_history, "expected one number of samples, at least 1, found {'frames': 24, 'history': 5}"),
        (_strange_token, "history: tokens [9] are neither an action (0 to 2) nor padding (3)"),
        (_renamed, "expected the arrays ['frames', 'history'], found ['history', 'images']"),
        (_batch_of_one, "frames: expected the shape [samples, 1, 16, 16], found [24, 1, 1, 16, 16]"),
    ],
)
def test_observations_the_device_could_not_give_are_refused(
    model: Path,
    spoil: Callable[[dict[str, np.ndarray]], None],
    complaint: str,
) -> None:
    path = model / "examples.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    spoil(arrays)
    np.savez(path, **arrays)
    assert complaint in refusal(model)


def test_a_channels_last_tensor_never_reaches_the_exporter(model: Path) -> None:
    import torch

    from daemon.export.policy import check_layout
    from daemon.export.recipe import read_recipe

    camera = torch.zeros(1, 16, 16, 2, dtype=torch.uint8).permute(0, 3, 1, 2)
    with pytest.raises(ExportError, match=r"frames: strides .* are not C-contiguous .* channels-last"):
        check_layout((camera, torch.zeros(1, 4, dtype=torch.int64)), read_recipe(model))


def test_a_folder_that_is_no_package_is_never_replaced(model: Path, tmp_path: Path) -> None:
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "letter.txt").write_text("dear")
    assert "exists and is not a package" in refusal(model, precious)
    assert (precious / "letter.txt").read_text() == "dear"


def test_a_failure_at_the_last_step_leaves_the_old_package_alone(
    exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    with packages.quiet():
        from daemon.export import publish

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publish, "_check", full)
    with pytest.raises(ExportError, match="cannot be written: No space left on device"):
        packages.export(exported.model)
    verify_files(exported.report.package, read_manifest(exported.report.package))
    assert not [path for path in exported.model.iterdir() if path.name.startswith(".")]
