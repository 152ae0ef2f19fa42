"""The driving recipe: tub to lessons, angles to tokens, what is learned from them, and how well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from daemon.config import ConfigError  # noqa: E402
from daemon.export.recipe import read_recipe  # noqa: E402
from daemon.package import HistoryInput  # noqa: E402
from models.drive import learn, measure, policy, steering, train, tub  # noqa: E402
from models.drive.learn import Lessons  # noqa: E402
from models.drive.policy import BINS, HEIGHT, HISTORY, PADDING_TOKEN, WIDTH, DrivePolicy  # noqa: E402
from models.drive.steering import STRAIGHT  # noqa: E402
from tests.system import drive  # noqa: E402
from tests.system.drive import NEEDS_DRIVE  # noqa: E402


def write_tub(folder: Path, records: list[dict[str, Any]], deleted: list[int] | None = None) -> Path:
    """A tub whose picture N is grey of brightness N in its lower part, and white above."""
    (folder / "images").mkdir(parents=True)
    names = ["cam/image_array", "user/angle", "user/throttle", "user/mode"]
    lines: list[object] = [names, ["image_array", "float", "float", "str"], {}, {}]
    lines.append({"paths": ["catalog_0.catalog"], "deleted_indexes": deleted or []})
    (folder / "manifest.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    catalogue = []
    for index, record in enumerate(records):
        name = f"{index}_cam_image_array_.png"
        pixels = np.full((120, 160, 3), 255, np.uint8)
        pixels[40:] = index
        Image.fromarray(pixels).save(folder / "images" / name)
        catalogue.append({"_index": index, names[0]: name, "user/mode": "user", "user/angle": 0.0, **record})
    (folder / "catalog_0.catalog").write_text("".join(json.dumps(record) + "\n" for record in catalogue))
    return folder


def lessons(count: int = 6) -> Lessons:
    """Pictures that are bright on their left side, of people who steer left."""
    frames = torch.zeros(count, HEIGHT, WIDTH, 3, dtype=torch.uint8)
    frames[:, :, : WIDTH // 2] = 200
    history = torch.arange(HISTORY).expand(count, HISTORY).clone()
    history[:, :3] = PADDING_TOKEN
    return Lessons(frames, torch.full((count,), 2), history)


# --- angles and tokens -------------------------------------------------------------------------------------


def test_each_bin_is_itself_and_its_borders_lie_half_way() -> None:
    tokens = np.arange(BINS)
    assert steering.to_tokens(steering.to_angles(tokens)).tolist() == tokens.tolist()
    step = 2.0 / (BINS - 1)
    edges = steering.to_angles(tokens[:-1]) + step / 2
    assert steering.to_tokens(edges - 1e-6).tolist() == tokens[:-1].tolist()
    assert steering.to_tokens(edges + 1e-6).tolist() == tokens[1:].tolist()


def test_full_left_is_first_straight_in_the_middle_and_beyond_the_end_is_the_end() -> None:
    assert steering.to_tokens(np.array([-1.0, 0.0, 1.0, -1.7, 30.0])).tolist() == [0, STRAIGHT, 14, 0, 14]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_an_angle_that_is_no_number_is_refused_with_its_place(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"not so at \[1\]"):
        steering.to_tokens(np.array([0.0, wrong]))


def test_a_history_ends_with_the_action_before_and_never_holds_the_answer() -> None:
    tokens = np.arange(12)
    found = steering.histories(tokens, np.array([False] + [True] * 11))
    assert found[0].tolist() == [PADDING_TOKEN] * HISTORY
    assert found[3].tolist() == [PADDING_TOKEN] * (HISTORY - 3) + [0, 1, 2]
    assert found[11].tolist() == list(range(3, 11))


def test_a_history_does_not_reach_over_a_break() -> None:
    follows = np.array([False, True, True, False, True])
    found = steering.histories(np.array([4, 5, 6, 7, 8]), follows)
    assert found[3].tolist() == [PADDING_TOKEN] * HISTORY
    assert found[4].tolist() == [PADDING_TOKEN] * (HISTORY - 1) + [7]


# --- the tub -----------------------------------------------------------------------------------------------


def test_a_tub_gives_the_lower_part_of_each_picture_with_its_own_angle(tmp_path: Path) -> None:
    angles = [-1.0, -0.5, 0.0, 0.5, 1.0]
    found = tub.read(write_tub(tmp_path / "tub", [{"user/angle": angle} for angle in angles]))
    assert found.frames.shape == (5, HEIGHT, WIDTH, 3)
    assert [set(np.unique(frame)) for frame in found.frames] == [{0}, {1}, {2}, {3}, {4}]
    assert found.tokens.tolist() == [0, 4, 7, 10, 14]  # -0.5 and 0.5 lie between two bins: to the even one
    assert found.history[4].tolist() == [PADDING_TOKEN] * 4 + [0, 4, 7, 10]


def test_records_that_were_deleted_or_driven_by_an_autopilot_are_left_out_and_break_the_history(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [{} for _ in range(9)]
    records[3] = {"user/mode": "pilot"}
    records[7] = records[8] = {"_session_id": "after lunch"}
    found = tub.read(write_tub(tmp_path / "tub", records, deleted=[5]))
    assert [int(frame[0, 0, 0]) for frame in found.frames] == [0, 1, 2, 4, 6, 7, 8]
    assert (found.history != PADDING_TOKEN).sum(1).tolist() == [0, 1, 2, 0, 0, 0, 1]


@pytest.mark.parametrize("angle", [None, "left", float("nan")])
def test_a_record_without_an_angle_is_named(tmp_path: Path, angle: object) -> None:
    with pytest.raises(tub.TubError, match=r"1_cam_image_array_.png: expected a number from -1 to 1 as user/angle"):
        tub.read(write_tub(tmp_path / "tub", [{}, {"user/angle": angle}]))


def test_a_picture_that_is_broken_or_smaller_than_the_crop_is_named(tmp_path: Path) -> None:
    found = write_tub(tmp_path / "tub", [{}, {}])
    picture = found / "images" / "1_cam_image_array_.png"
    Image.fromarray(np.zeros((60, 80, 3), np.uint8)).save(picture)
    with pytest.raises(tub.TubError, match=r"1_cam.*lies outside the 80x60 picture.*change the crop"):
        tub.read(found)
    picture.write_bytes(picture.read_bytes()[:50])
    with pytest.raises(tub.TubError, match=r"1_cam.*expected a picture"):
        tub.read(found)


def test_what_is_no_tub_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(tub.TubError, match="expected an unpacked donkeycar tub"):
        tub.read(tmp_path / "none")
    with pytest.raises(tub.TubError, match="no record in it that a person steered"):
        tub.read(write_tub(tmp_path / "tub", [{"user/mode": "pilot"}]))
    (tmp_path / "tub" / "manifest.json").write_text("{}")
    with pytest.raises(ConfigError, match="not the manifest of a donkeycar tub"):
        tub.read(tmp_path / "tub")


# --- learning ----------------------------------------------------------------------------------------------


def test_a_mirrored_decision_has_its_picture_its_token_and_its_history_mirrored() -> None:
    plain = lessons(2)
    mirrored = learn.mirror(plain, torch.tensor([True, False]))
    assert mirrored.frames[0, 0, 0, 0] == 0
    assert mirrored.frames[0, 0, -1, 0] == 200
    assert mirrored.tokens.tolist() == [12, 2]
    assert mirrored.history[0].tolist() == [PADDING_TOKEN] * 3 + [11, 10, 9, 8, 7]
    assert all(torch.equal(found[1], kept[1]) for found, kept in zip(mirrored, plain, strict=True))


def test_a_shift_is_small_and_each_picture_has_its_own() -> None:
    down, aside = learn.SHIFT
    frames = torch.arange(WIDTH, dtype=torch.uint8)[None, None, :, None].expand(64, HEIGHT, WIDTH, 3)
    middle = learn.shift(frames)[:, HEIGHT // 2, WIDTH // 2, 0].to(torch.int64) - WIDTH // 2
    assert set(middle.tolist()) == set(range(-aside, aside + 1))
    rows = torch.arange(HEIGHT, dtype=torch.uint8)[None, :, None, None].expand(64, HEIGHT, WIDTH, 3)
    moved = learn.shift(rows)[:, HEIGHT // 2, 0, 0].to(torch.int64) - HEIGHT // 2
    assert set(moved.tolist()) == set(range(-down, down + 1))


def test_other_light_stays_within_its_limits() -> None:
    frames = torch.full((64, HEIGHT, WIDTH, 3), 100, dtype=torch.uint8)
    light = learn.relight(frames).flatten(1).to(torch.int64)
    assert bool((light == light[:, :1]).all())
    found = light[:, 0]
    assert len(set(found.tolist())) > 10
    assert int(found.min()) >= 100 - 20 - learn.BRIGHTNESS
    assert int(found.max()) <= 100 + 20 + learn.BRIGHTNESS


def test_most_histories_are_forgotten_and_the_rest_is_nearly_right() -> None:
    torch.manual_seed(0)
    history = torch.full((4000, HISTORY), STRAIGHT)
    history[:, 0] = PADDING_TOKEN
    found = learn.forget(history)
    assert bool((found[:, 0] == PADDING_TOKEN).all())
    kept = found[found[:, 1] != PADDING_TOKEN][:, 1:]
    assert len(kept) / 4000 == pytest.approx(1.0 - learn.BLANKED, abs=0.03)
    assert float((kept != STRAIGHT).float().mean()) == pytest.approx(0.096, abs=0.02)
    assert int((kept - STRAIGHT).abs().max()) <= 2


def test_the_bin_itself_is_most_wanted_and_both_beside_it_alike() -> None:
    wanted = learn.bell(torch.tensor([5, 0]))
    assert wanted.sum(1).tolist() == pytest.approx([1.0, 1.0])
    assert wanted.argmax(1).tolist() == [5, 0]
    assert float(wanted[0, 4]) == pytest.approx(float(wanted[0, 6]))


def test_a_policy_learns_which_side_is_bright() -> None:
    """Left bright: steer left; right bright: steer right. The mirror makes the second out of the first."""
    torch.manual_seed(0)
    side, pupil = lessons(64), DrivePolicy()
    steps: list[int] = []
    learn.learn(pupil, tub.Drive(*(tensor.numpy() for tensor in side)), 60, steps.append)
    both = learn.mirror(side, torch.arange(64) >= 32)
    unknown = torch.full_like(both.history, PADDING_TOKEN)
    chosen = pupil(both.frames, unknown).argmax(1)
    assert (sum(steps), pupil.training) == (60, False)
    assert bool(((chosen - both.tokens).abs() <= 1).all())


def test_the_contract_and_the_policy_have_the_same_numbers() -> None:
    recipe = read_recipe(tub.FOLDER)
    (history,) = (spec for spec in recipe.inputs if isinstance(spec, HistoryInput))
    assert (len(recipe.actions), recipe.actions[STRAIGHT]) == (BINS, "STRAIGHT")
    assert tub.view().shape == (HEIGHT, WIDTH, 3)
    assert (history.shape, history.padding_token) == ([1, HISTORY], PADDING_TOKEN)
    example = lessons(1)
    assert list(DrivePolicy()(example.frames, example.history).shape) == recipe.output.shape


# --- measuring ---------------------------------------------------------------------------------------------


def test_the_parts_are_apart_in_time() -> None:
    tokens = np.arange(1000)
    whole = tub.Drive(np.zeros((1000, 1, 1, 3), np.uint8), tokens, np.zeros((1000, HISTORY), np.int64))
    learned, held_out = train.split(whole)
    assert learned.tokens.tolist() == list(range(800 - train.GAP))
    assert held_out.tokens.tolist() == list(range(800, 1000))
    with pytest.raises(tub.TubError, match=r"expected at least 200 records .*, found 199"):
        train.split(whole.part(0, 199))


def test_a_score_counts_bins() -> None:
    found = measure.score(np.array([1, 2, 3, 9]), np.array([1, 3, 1, 4]))
    assert found == measure.Score(exact=0.25, within_one=0.5, mean_bins=2.0)


@pytest.mark.slow
@pytest.mark.timeout(2 * drive.MODEL_TIME_S)
@NEEDS_DRIVE
def test_on_the_rest_of_a_real_drive_the_policy_steers_by_the_picture() -> None:
    scores = json.loads((drive.model() / "scores.json").read_text())["scores"]
    print(scores)
    bins = {name: found["mean_bins"] for name, found in scores.items()}
    assert bins["policy, its own history"] < 0.6 * bins["most frequent"]
    assert bins["policy, no history"] < 0.6 * bins["most frequent"]
    assert bins["policy, others' frames"] > 2.0 * bins["policy, the person's history"]
    assert bins["repeat the last"] < bins["policy, the person's history"], "said on the page: it looks best"


@pytest.mark.slow
@pytest.mark.timeout(2 * drive.MODEL_TIME_S)
@NEEDS_DRIVE
def test_the_policy_by_itself_is_measured_from_its_own_history() -> None:
    _, held_out = train.split(tub.read(drive.tub()))
    learned = policy.load(drive.model() / "weights.pt")
    alone = measure.drive_alone(learned, held_out)
    own = steering.histories(alone, np.array([False] + [True] * (len(alone) - 1)))
    assert measure.choose(learned, held_out._replace(history=own)).tolist() == alone.tolist()
