"""``model.toml``: every mistake in it is named with its file and key before anything is exported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from daemon.export import export_package
from daemon.export.recipe import ExportError, read_recipe
from tests.packages import tiny_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "tiny")


def change(model: Path, old: str, new: str) -> None:
    path = model / "model.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_reads_the_contract(model: Path) -> None:
    recipe = read_recipe(model)
    assert (recipe.name, recipe.policy, recipe.examples) == ("tiny", "policy.py", "examples.npz")
    assert [spec.name for spec in recipe.inputs] == ["frames", "history"]
    assert recipe.output.shape == [1, 3]
    assert recipe.gates.min_action_agreement == 0.995


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name = "tiny"', 'name = "tiny"\ncolour = "blue"', "unknown field `colour`"),
        ('dtype = "uint8"', 'dtype = "float32"', "`$.inputs[0].dtype`"),
        ('role = "frame"', 'role = "picture"', "picture"),
        ('layout = "NSHW"', 'layout = "NCHW"', "`$.inputs[0].layout`"),
        ("shape = [1, 1, 16, 16]", "shape = [1, 1, 16, 8]", "inputs.frames.shape = [1, 1, 16, 8]"),
        ("padding_token = 3", "padding_token = 1", "inputs.history.padding_token = 1"),
        ("shape = [1, 3]", "shape = [1, 4]", "outputs.logits.shape = [1, 4]: expected [1, 3]"),
        ('policy = "policy.py"', 'policy = "../policy.py"', "`$.policy`"),
        ('name = "tiny"', "name = tiny", "Invalid value"),
        ('examples = "examples.npz"\n', "", "missing required field `examples`"),
        ('name = "tiny"', 'name = "tiny"\ngates = { max_abs_error = 0.0 }', "`$.gates.max_abs_error`"),
    ],
)
def test_a_mistake_is_named_with_its_file(model: Path, old: str, new: str, complaint: str) -> None:
    change(model, old, new)
    with pytest.raises(ExportError) as refusal:
        read_recipe(model)
    assert str(refusal.value).startswith(f"{model / 'model.toml'}: ")
    assert complaint in str(refusal.value)


def test_a_folder_without_contract_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"model\.toml: expected a model's contract: No such file"):
        read_recipe(tmp_path)


def test_without_torch_the_refusal_says_what_to_install(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "daemon.export.lower", None)
    with pytest.raises(ExportError, match=r"export needs daemon\.export\.lower: pip install 'reflexd\[export\]'"):
        export_package(model)
