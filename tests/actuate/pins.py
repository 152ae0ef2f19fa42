"""Pins without hardware: gpiozero's mock pins that write down their history, and a PWM block of files."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gpiozero.pins.mock import MockPWMPin

from daemon.actuate.drivers import gpio_pwm
from tests.actuate.running import ROOT, Setup, make_setup

TRACE_VARIABLE = "REFLEXD_TEST_PIN_TRACE"


class TracePin(MockPWMPin):  # type: ignore[misc]  # gpiozero has no types
    """A mock pin that appends all that happens to it to the file ``$REFLEXD_TEST_PIN_TRACE``, also after kill -9."""

    def _set_function(self, value: str) -> None:
        super()._set_function(value)
        self._trace()

    def _set_frequency(self, value: float | None) -> None:
        super()._set_frequency(value)
        self._trace()

    def _set_state(self, value: float) -> None:
        super()._set_state(value)
        self._trace()

    def _trace(self) -> None:
        event = [time.monotonic_ns(), self.info.name, self._function, self._frequency, float(self._state)]
        fd = os.open(os.environ[TRACE_VARIABLE], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        os.write(fd, json.dumps(event).encode() + b"\n")
        os.close(fd)


class Event(msgspec.Struct, frozen=True, array_like=True):
    """What a pin is after something happened to it."""

    t_ns: int
    pin: str
    function: str
    frequency: float | None
    state: float


class Trace:
    """The history of all pins of all processes.

    Args:
        path: the file they write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def events(self, pin: int) -> list[Event]:
        """All that happened to a pin."""
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        return [event for event in (msgspec.json.decode(x, type=Event) for x in lines) if event.pin == f"GPIO{pin}"]

    def outputs(self, pin: int) -> list[float]:
        """The states of a pin while it was an output, each once until another one comes."""
        states: list[float] = []
        for event in self.events(pin):
            if event.function == "output" and states[-1:] != [event.state]:
                states.append(event.state)
        return states

    def now(self, pin: int) -> float:
        """The state written last while the pin was an output."""
        return [event.state for event in self.events(pin) if event.function == "output"][-1]


def trace_pins(folder: Path, patch: pytest.MonkeyPatch) -> Trace:
    """Let this process and its children have mock pins that are traced, chosen as a user would choose them."""
    entry = folder / "site" / "tracepin-1.dist-info"
    entry.mkdir(parents=True)
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: tracepin\nVersion: 1\n")
    (entry / "entry_points.txt").write_text("[gpiozero_mock_pin_classes]\ntracepin = tests.actuate.pins:TracePin\n")
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(folder / "site")]))
    patch.setenv("GPIOZERO_PIN_FACTORY", "mock")
    patch.setenv("GPIOZERO_MOCK_PIN_CLASS", "tracepin")
    patch.setenv(TRACE_VARIABLE, str(folder / "pins.jsonl"))
    return Trace(folder / "pins.jsonl")


def make_gpio_setup(folder: Path, *outputs: dict[str, Any], **actuator: object) -> Setup:
    """A configuration on disk with the actuator ``paddle`` on pins."""
    setup = make_setup(folder, driver="gpio", **actuator)
    tables = "".join(
        "[[actuators.paddle.outputs]]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in output.items())
        for output in outputs
    )
    setup.config.write_text(setup.config.read_text() + tables)
    return setup


def toml(value: object) -> str:
    """A value in TOML; tables inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


class FakeSysfs:
    """``/sys/class/pwm`` of files, with the kernel's rules once :meth:`rule` was called.

    Args:
        folder: where it is made.
        **chips: device of each chip, such as ``pwmchip2="1f00098000.pwm"``.
    """

    def __init__(self, folder: Path, **chips: str) -> None:
        self.path = folder / "class"
        self.writes: list[tuple[str, str]] = []
        """What was written where, in order."""
        self.failing: dict[str, int] = {}
        """Error number that writing a file of this name gives."""
        for name, device in chips.items():
            real = folder / "devices" / "platform" / device
            real.mkdir(parents=True)
            (self.path / name).mkdir(parents=True)
            (self.path / name / "device").symlink_to(real)
            (self.path / name / "export").write_text("")

    def export(self, chip: str, channel: int, **values: object) -> Path:
        """Make a channel as the kernel does; ``values`` are those of an earlier owner."""
        folder = self.path / chip / f"pwm{channel}"
        folder.mkdir()
        for name, value in {"period": 0, "duty_cycle": 0, "polarity": "normal", "enable": 0, **values}.items():
            (folder / name).write_text(f"{value}\n")
        return folder

    def rule(self, patch: pytest.MonkeyPatch) -> None:
        """From now on, keep the order of writes and refuse what the kernel refuses."""
        write = gpio_pwm._write

        def ruled(file: Path, data: bytes) -> None:
            self.writes.append((str(file.relative_to(self.path)), data.decode()))
            if file.name in self.failing:
                raise OSError(self.failing[file.name], os.strerror(self.failing[file.name]))
            write(file, data)
            if file.name == "export":
                self.export(file.parent.name, int(data))
            elif not self._allowed(file.parent):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

        patch.setattr(gpio_pwm, "_write", ruled)

    def _allowed(self, channel: Path) -> bool:
        """pwm_apply_state(): a period, and a duty within it; drivers refuse another polarity while enabled."""
        period, duty, enable = (int((channel / name).read_text()) for name in ("period", "duty_cycle", "enable"))
        touched = self.writes[-1][0].rpartition("/")[2]
        return period > 0 and duty <= period and not (touched == "polarity" and enable)
