"""The import rules of the architecture: data flows one way, and the device core stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STAGES = ["capture", "simulate", "infer", "actuate", "gateway"]
HOST_SIDE = ["export", "ctl"]
HEAVY = {"torch", "executorch", "torchao"}
PIXELS = {"numpy", "PIL"}
HARDWARE = {"picamera2", "libcamera", "gpiozero", "lgpio", "ale_py", "evdev", "serial"}
TORCH_MAY = {"daemon/infer/runtime.py", "daemon/infer/worker.py", "daemon/infer/verify_child.py"}
ALE_MAY = {"daemon/simulate/pong.py"}
CAMERA_MAY = {"daemon/capture/picamera2.py"}
GPIO_MAY = {"daemon/actuate/drivers/gpio_lines.py"}
PURE = [
    "messages.py",
    "remote.py",
    "wire.py",
    "desk.py",
    "gateway/account.py",
    "gateway/book.py",
    "gateway/reception.py",
    "gateway/replies.py",
    "infer/change.py",
    "infer/trial.py",
    "views.py",
    "restart.py",
    "table.py",
    "statistics.py",
    "distribution.py",
    "infer/history.py",
    "infer/encode.py",
    "infer/decode.py",
    "infer/schedule.py",
    "infer/unchanged.py",
    "infer/admission.py",
    "actuate/valve.py",
    "actuate/arbiter.py",
    "actuate/limits.py",
    "actuate/state.py",
    "simulate/clock.py",
    "capture/raw.py",
    "capture/convert.py",
    "capture/liveness.py",
    "outputs.py",
    "pins.py",
]


def imports(path: Path, module_level_only: bool = False) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    for node in tree.body if module_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("stage", [*STAGES, *HOST_SIDE])
def test_stages_never_import_one_another(stage: str) -> None:
    others = tuple(f"daemon.{other}" for other in [*STAGES, *HOST_SIDE] if other != stage)
    allowed = ("daemon.infer.runtime",) if stage == "export" else ()
    for path in sources(f"daemon/{stage}"):
        crossing = [
            name for name in imports(path) if name.startswith(others) and not name.startswith(allowed or ("-",))
        ]
        assert not crossing, f"{path}: {crossing}"


def test_shared_modules_never_import_a_stage_at_module_level() -> None:
    stages = tuple(f"daemon.{stage}" for stage in [*STAGES, *HOST_SIDE])
    for path in (ROOT / "daemon").glob("*.py"):
        crossing = [name for name in imports(path, module_level_only=True) if name.startswith(stages)]
        assert not crossing, f"{path}: {crossing}"


def test_messages_import_nothing_but_msgspec() -> None:
    found = {name.split(".")[0] for name in imports(ROOT / "daemon/messages.py")}
    assert found - set(sys.stdlib_module_names) == {"msgspec"}


def test_heavy_and_hardware_libraries_stay_where_they_are_used() -> None:
    for path in sources("daemon"):
        name = path.relative_to(ROOT).as_posix()
        found = {module.split(".")[0] for module in imports(path, module_level_only=True)}
        if name not in TORCH_MAY and not name.startswith("daemon/export/"):
            assert not found & HEAVY, name
        if name not in ALE_MAY | CAMERA_MAY | GPIO_MAY:
            assert not found & HARDWARE, name


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_have_no_clock_and_no_sockets(name: str) -> None:
    tree = ast.parse((ROOT / "daemon" / name).read_text())
    found = {module.split(".")[0] for module in imports(ROOT / "daemon" / name)}
    assert not found & {"zmq", "socket", "time", "subprocess", "threading", "select", "signal"}, name
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not any(call.endswith((".now", "monotonic_ns", "monotonic", ".open")) for call in calls), name


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        ("daemon.actuate.service", HEAVY | HARDWARE | PIXELS | {"rich"}),
        ("daemon.infer.service", HEAVY | HARDWARE | PIXELS | {"rich"}),
        ("daemon.capture.service", HEAVY | HARDWARE | {"rich"}),
        ("daemon.simulate.service", HEAVY | {"rich"}),
        ("daemon.gateway.service", HEAVY | HARDWARE | PIXELS | {"rich"}),
        ("daemon.cli, daemon.operate", HEAVY | HARDWARE | PIXELS | {"rich", "importlib.metadata"}),
        ("daemon.ctl.cli, daemon.ctl.ask", HEAVY | HARDWARE | PIXELS | {"rich", "importlib.metadata", "asyncio"}),
        ("daemon.cli, daemon.plan, daemon.run", HEAVY | HARDWARE | PIXELS | {"rich", "importlib.metadata"}),
    ],
)
def test_a_process_loads_only_what_it_uses(modules: str, unwanted: set[str]) -> None:
    """Each of these costs every start 15 to 100 ms and up to 12 MB; torch a hundred times that."""
    check = f"import sys, {modules}; found = {unwanted} & set(sys.modules); assert not found, found"
    subprocess.run([sys.executable, "-c", check], check=True, cwd=ROOT, timeout=60)
