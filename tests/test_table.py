"""The process table of a plan."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from daemon.config import Config, WorkerKind
from daemon.plan import Plan
from daemon.runtime import RuntimeFolder
from daemon.table import Entry, process_table
from tests.infer.manifests import manifest

FOLDER = Path("/dev/shm/rfx-table")


def table(fps: float = 30.0, worker: WorkerKind = "native") -> dict[str, Entry]:
    values = {
        "daemon": {"name": "t", "runtime": str(FOLDER), "state": str(FOLDER)},
        "worlds": {"pong": {"game": "pong"}},
        "sources": {"front": {"kind": "synthetic", "fps": fps}},
        "agents": {
            "player": {"package": "p", "source": "pong", "actuator": "paddle"},
            "driver": {"package": "p", "source": "front", "actuator": "wheels"},
        },
        "actuators": {
            name: {"driver": "log", "actions": ["STAY", "GO"], "neutral": "STAY", "deadman_ms": 200.0}
            for name in ("paddle", "wheels")
        },
    }
    config = msgspec.convert(values, Config)
    plan = Plan(Path("/etc/robot.toml"), config, {"player": manifest(), "driver": manifest()})
    return {entry.identity: entry for entry in process_table(plan, RuntimeFolder(config.daemon), worker)}


def test_actuators_start_first_and_infer_last() -> None:
    assert list(table()) == ["actuate@paddle", "actuate@wheels", "simulate@pong", "capture@front", "infer"]


def test_only_actuators_stop_before_everything_else() -> None:
    assert [name for name, entry in table().items() if entry.stops_first] == ["actuate@paddle", "actuate@wheels"]


@pytest.mark.parametrize(
    ("identity", "module", "name"),
    [("actuate@paddle", "daemon.actuate", "paddle"), ("infer", "daemon.infer", "infer")],
)
def test_a_process_is_its_kind_s_module_with_configuration_and_name(identity: str, module: str, name: str) -> None:
    argv = table()[identity].argv
    assert argv[0] == sys.executable
    assert argv[-4:] == ("-m", module, "/etc/robot.toml", name)


def test_what_loads_torch_gets_longer_to_start_and_what_holds_an_output_less_to_stall() -> None:
    rows = table(worker="python").items()
    limits = {name: (entry.start_limit_s, entry.stall_limit_s) for name, entry in rows}
    assert limits["infer"] == (90.0, 3.0)
    assert table(worker="native")["infer"].start_limit_s == 15.0
    assert limits["actuate@paddle"] == (15.0, 1.0)
    assert limits["simulate@pong"] == limits["capture@front"] == (15.0, 3.0)


def test_a_slow_camera_is_not_a_stuck_one() -> None:
    limits = {name: entry.stall_limit_s for name, entry in table(fps=0.5).items()}
    assert limits["capture@front"] == limits["infer"] == 6.0
    assert limits["simulate@pong"] == 3.0
    assert limits["actuate@wheels"] == 1.0


def test_a_process_leaves_the_endpoints_it_binds_and_its_rings() -> None:
    left = {name: {path.relative_to(FOLDER).as_posix() for path in entry.leaves} for name, entry in table().items()}
    assert left["actuate@paddle"] == {
        "proposal@paddle",
        "applied@paddle",
        "command@paddle",
        "health@actuate@paddle",
    }
    assert left["simulate@pong"] == {
        "frame@pong",
        "output@pong",
        "world@pong",
        "health@simulate@pong",
        "rings/pong.16x16-gray8",
    }
    assert left["infer"] == {"health@infer", "agents@infer"}
    assert table()["infer"].lock == FOLDER / "locks" / "infer"
