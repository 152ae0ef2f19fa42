"""Folders of pictures and donkeycar tubs: which pictures, in which order, at which rate, and what is wrong."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from daemon.capture.frames import FrameFolder, picture_files
from daemon.capture.raw import BadPicture
from daemon.config import ConfigError
from daemon.sources import Frames
from tests.capture.cards import colour_card

TUB = Path(__file__).parents[3] / "shared" / "fixtures" / "donkeycar_tub.tar.gz"


def folder_of(tmp_path: Path, names: list[str]) -> Path:
    for index, name in enumerate(names):
        Image.fromarray(np.full((16, 20, 3), index, np.uint8)).save(tmp_path / name)
    return tmp_path


def source(folder: Path, **keys: object) -> FrameFolder:
    return FrameFolder(Frames(path=str(folder), fps=20.0, **keys), folder)  # type: ignore[arg-type]


def values(folder: FrameFolder, count: int) -> list[int]:
    found = [folder.read() for _ in range(count)]
    return [-1 if raw is None else int(raw.rows(0)[0, 0]) for raw in found]


def test_numbers_in_names_are_numbers(tmp_path: Path) -> None:
    folder_of(tmp_path, ["10_x.png", "9_x.png", "100_x.png", "._1_x.png"])
    (tmp_path / "notes.txt").write_text("no picture")
    assert [path.name for path in picture_files(tmp_path)] == ["9_x.png", "10_x.png", "100_x.png"]


def test_pictures_come_out_exact_and_end(tmp_path: Path) -> None:
    Image.fromarray(colour_card(40, 30)).save(tmp_path / "1.png")
    Image.fromarray(colour_card(40, 30)[..., 0]).save(tmp_path / "2.png")
    Image.fromarray(colour_card(40, 30)).convert("RGBA").save(tmp_path / "3.png")
    folder = source(tmp_path)
    for wanted in (colour_card(40, 30), colour_card(40, 30)[..., 0], colour_card(40, 30)):
        raw = folder.read()
        assert raw is not None
        assert np.array_equal(raw.rows(0), wanted.reshape(30, -1))
        assert (raw.sensor_ns, raw.step_ns) == (None, 50_000_000)
    assert folder.read() is None
    assert folder.read() is None


def test_a_loop_begins_again(tmp_path: Path) -> None:
    assert values(source(folder_of(tmp_path, ["0.png", "1.png"]), loop=True), 5) == [0, 1, 0, 1, 0]


def test_a_broken_picture_is_refused_and_the_next_one_comes(tmp_path: Path) -> None:
    folder_of(tmp_path, ["0.png", "1.png", "2.png"])
    (tmp_path / "1.png").write_bytes((tmp_path / "1.png").read_bytes()[:40])
    (tmp_path / "2.png").write_bytes(b"not a picture")
    folder = source(tmp_path, loop=True)
    assert values(folder, 1) == [0]
    for _ in range(2):
        with pytest.raises(BadPicture) as bad:
            folder.read()
        assert (bad.value.reason, bad.value.step_ns) == ("broken", 50_000_000), "its place in time is kept"
    assert values(folder, 1) == [0]


def test_a_tub_is_read_in_the_order_of_its_catalogue_without_deleted_records(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    folder_of(tmp_path / "images", ["0_cam.png", "1_cam.png", "2_cam.png"])
    records = [{"_index": index, "cam/image_array": f"{2 - index}_cam.png"} for index in range(3)]
    (tmp_path / "c.catalog").write_text("".join(json.dumps(record) + "\n" for record in records))
    manifest = [["user/mode", "cam/image_array"], ["str", "image_array"], {}, {}]
    tail = {"paths": ["c.catalog"], "deleted_indexes": [1]}
    (tmp_path / "manifest.json").write_text("".join(json.dumps(line) + "\n" for line in [*manifest, tail]))
    assert [path.name for path in picture_files(tmp_path)] == ["2_cam.png", "0_cam.png"]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]\n[]\n{}", '["a"]\n["image_array"]\n{"paths": ["none.catalog"]}', "nothing", "1\n2\n3"]
)
def test_a_foreign_manifest_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ConfigError, match=r"manifest.json: not the manifest|expected a folder of pictures"):
        picture_files(tmp_path)


def test_an_empty_or_missing_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no pictures here"):
        picture_files(tmp_path)
    with pytest.raises(ConfigError, match="expected a folder of pictures"):
        picture_files(tmp_path / "none")


@pytest.mark.skipif(not TUB.exists(), reason="needs the recorded drive ../shared/fixtures/donkeycar_tub.tar.gz")
def test_a_recorded_drive(tmp_path: Path) -> None:
    with tarfile.open(TUB) as archive:
        archive.extractall(tmp_path, filter="data")
    paths = picture_files(tmp_path / "tub")
    assert [path.name for path in paths[:2]] == ["0_cam_image_array_.jpg", "1_cam_image_array_.jpg"]
    assert len(paths) == 1000
    raw = source(tmp_path / "tub").read()
    assert raw is not None
    assert (raw.format, raw.width, raw.height) == ("rgb24", 160, 120)
    with Image.open(paths[0]) as image:
        assert np.array_equal(raw.rows(0).reshape(120, 160, 3), np.asarray(image))
