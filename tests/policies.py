"""Source texts of the test policies and their contracts (``model.toml``); ``packages`` exports them."""

from __future__ import annotations

ACTIONS = ("LEFT", "STAY", "RIGHT")
SIDE = 16
"""Width and height of the tiny policy's view, pixels."""
HISTORY = 4
PADDING_TOKEN = len(ACTIONS)
FULL_WIDTH, FULL_HEIGHT = 640, 480

_TINY_POLICY = '''
"""Goes where the newest picture is brightest; stays when a past action was RIGHT three times over."""
import torch
from torch import nn
from torch.nn import functional


class TinyPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.thirds = nn.Linear(16, 3, bias=False)
        self.mixed = nn.Linear(3 + 4 * 2, 3)
        self.tokens = nn.Embedding(4, 2)
        self.burn = nn.ModuleList(nn.Linear(512, 512, bias=False) for _ in range({burn}))
        with torch.no_grad():
            for index, (first, last) in enumerate(((0, 5), (5, 11), (11, 16))):
                self.thirds.weight[index] = 0
                self.thirds.weight[index, first:last] = 8.0 / (last - first)
            self.mixed.weight.zero_().fill_diagonal_(1.0)
            self.mixed.weight[:, 3:] = 0.01
            self.mixed.bias.zero_()
            self.tokens.weight.copy_(torch.arange(8.0).reshape(4, 2) / 8)

    def forward(self, frames, history):
        columns = frames[:, 0].to(torch.float32).mean(dim=1) * (1.0 / 255.0)
        scores = self.thirds(columns)
        logits = self.mixed(torch.cat([scores, self.tokens(history).flatten(1)], dim=1))
        {tail}
        return logits


def load():
    torch.manual_seed(0)
    return TinyPolicy().eval()
'''
_BURN = """
        heat = functional.pad(columns, (0, 496))
        for layer in self.burn:
            heat = torch.tanh(layer(heat))
        logits = logits + 1e-6 * heat[:, :3]"""
_NAN = """
        dark = 254.5 - frames.to(torch.float32).amax(dim=(1, 2, 3)).unsqueeze(1)
        logits = logits + 0.0 * torch.sqrt(dark)  # NaN as soon as one pixel is 255"""

FULL_FRAME_POLICY = '''
"""Strided convolutions over a whole colour picture, straight from the camera's layout."""
import torch
from torch import nn


class FullFramePolicy(nn.Module):
    def __init__(self):
        super().__init__()
        # 4x4 patches of RGB are 4x12 patches of the rows as they lie in memory: no transposed copy of the picture.
        self.reduce = nn.Conv2d(1, 8, kernel_size=(4, 12), stride=(4, 12))
        self.mix = nn.Conv2d(8, 16, kernel_size=2, stride=2)
        self.choose = nn.Linear(16, 3)

    def forward(self, frames):
        few = frames[:, ::4, ::4]  # byte to float is slow in the portable kernels: on every fourth pixel only
        picture = few.reshape(1, 1, 120, 480).to(torch.float32) * (1.0 / 255.0)
        features = torch.relu(self.mix(torch.relu(self.reduce(picture))))
        return self.choose(features.mean(dim=(2, 3)))


def load():
    torch.manual_seed(0)
    return FullFramePolicy().eval()
'''

_LOGITS = """
[[outputs]]
role = "action_logits"
name = "logits"
dtype = "float32"
shape = [1, 3]
"""

FULL_FRAME_CONTRACT = f"""
name = "full"
policy = "policy.py"
examples = "examples.npz"
actions = {list(ACTIONS)}

[[inputs]]
role = "frame"
name = "frames"
dtype = "uint8"
shape = [1, {FULL_HEIGHT}, {FULL_WIDTH}, 3]
layout = "NHWC"
view = {{ width = {FULL_WIDTH}, height = {FULL_HEIGHT}, format = "rgb24" }}
offsets_ms = [0.0]
{_LOGITS}"""


def tiny_policy(burn: int, nan_when_bright: bool) -> str:
    """``policy.py`` of the tiny policy."""
    tail = (_BURN if burn else "") + (_NAN if nan_when_bright else "")
    return _TINY_POLICY.format(burn=burn, tail=tail.strip())


def tiny_contract(stack: int, height: int) -> str:
    """``model.toml`` of the tiny policy."""
    return f"""
name = "tiny"
policy = "policy.py"
examples = "examples.npz"
actions = {list(ACTIONS)}

[[inputs]]
role = "frame"
name = "frames"
dtype = "uint8"
shape = [1, {stack}, {height}, {SIDE}]
layout = "NSHW"
view = {{ width = {SIDE}, height = {height}, format = "gray8" }}
offsets_ms = {[0.0, *(-100.0 * index for index in range(1, stack))]}

[[inputs]]
role = "history"
name = "history"
dtype = "int64"
shape = [1, {HISTORY}]
padding_token = {PADDING_TOKEN}
{_LOGITS}"""
