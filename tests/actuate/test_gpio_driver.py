"""The gpio driver on mock pins and on PWM files, with whatever fails; and what the pins may never do."""

from __future__ import annotations

import errno
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gpiozero import Device, GPIOZeroError
from gpiozero.pins.mock import MockFactory, MockPWMPin
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.actuate.control import RETRY_NS, Control
from daemon.actuate.drivers import DriverError
from daemon.actuate.drivers.gpio import GpioDriver
from daemon.actuate.latch import Latch
from daemon.actuate.limits import Limits, Setting
from daemon.actuate.state import State
from daemon.actuate.writer import Writer
from daemon.config import Actuator
from daemon.messages import ActionProposal, Applied, Command
from daemon.outputs import level
from tests.actuate.pins import FakeSysfs
from tests.actuate.setups import CONTINUOUS, DISCRETE, LOW, MS, NOW

RELAY, MOTOR, SERVO = 17, 22, 18
HEADER = "1f00098000.pwm"


class FlakyPin(MockPWMPin):  # type: ignore[misc]  # gpiozero has no types
    """A mock pin that fails when told to."""

    failing = False

    def _set_state(self, value: float) -> None:
        if FlakyPin.failing:
            raise GPIOZeroError("the line is gone")
        super()._set_state(value)


def discrete() -> Actuator:
    return convert(
        {
            "actions": ["NOOP", "LEFT", "RIGHT", "JUMP"],
            "neutral": "NOOP",
            "outputs": [
                {"kind": "digital", "pin": RELAY, "active_low": True, "actions": table(False, True, True, False)},
                {"kind": "pwm", "pin": MOTOR, "actions": table(0.0, 0.25, 0.5, 1.0)},
                {"kind": "servo", "pin": SERVO, "actions": table(0.0, -45.0, 45.0, 90.0)},
            ],
        }
    )


def continuous() -> Actuator:
    channels = [
        {"unit": "rad", "minimum": -0.5, "maximum": 0.75, "neutral": 0.125},
        {"unit": "m/s", "minimum": 0.0, "maximum": 3.0, "neutral": 0.0},
    ]
    return convert(
        {
            "channels": channels,
            "outputs": [
                {"kind": "digital", "pin": RELAY, "channel": 1, "on_above": 0.0},
                {"kind": "pwm", "pin": MOTOR, "channel": 1, "curve": [[0.0, 0.0], [0.1, 0.2], [3.0, 0.9]]},
                {"kind": "servo", "pin": SERVO, "channel": 0, "curve": [[-0.5, -60.0], [0.75, 60.0]]},
            ],
        }
    )


def convert(keys: dict[str, Any]) -> Actuator:
    return msgspec.convert({"driver": "gpio", "deadman_ms": 250.0, **keys}, Actuator)


def table(*values: float) -> dict[str, float]:
    return dict(zip(["NOOP", "LEFT", "RIGHT", "JUMP"], values, strict=True))


class Board:
    """Mock pins and a PWM block of files, with a driver on them."""

    def __init__(self, folder: Path, actuator: Actuator) -> None:
        self.sysfs = FakeSysfs(folder, pwmchip3=HEADER)
        self.actuator = actuator
        self.driver = GpioDriver(actuator, folder / "gpio", self.sysfs.path)
        self.servo = self.sysfs.path / "pwmchip3" / "pwm2" / "duty_cycle"

    def levels(self) -> list[float]:
        """What the three outputs carry: on, duty, microseconds."""
        factory = Device.pin_factory
        relay = factory.pin(RELAY).state
        on = 1.0 - relay if getattr(self.actuator.outputs[0], "active_low", False) else relay
        return [on, factory.pin(MOTOR).state, int(self.servo.read_text()) / 1e3]

    def expected(self, setting: Setting) -> list[float]:
        return [level(output, setting.action, setting.values) for output in self.actuator.outputs]

    @property
    def neutral(self) -> list[float]:
        return self.expected(Setting(self.actuator.neutral, tuple(one.neutral for one in self.actuator.channels)))


def order(action: str | None = None, *values: float) -> Applied:
    return Applied(seq=1, applied_ns=1, cause="proposal", action=action, values=list(values))


@pytest.fixture(autouse=True)
def mock_pins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GPIOZERO_PIN_FACTORY", "mock")
    monkeypatch.setattr(Device, "pin_factory", MockFactory(pin_class=FlakyPin))
    monkeypatch.setattr(FlakyPin, "failing", False)
    yield
    Device.pin_factory.reset()


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    made = Board(tmp_path, discrete())
    made.sysfs.rule(monkeypatch)
    return made


def test_opened_everything_is_neutral(board: Board) -> None:
    board.driver.open()
    assert board.levels() == [0.0, 0.0, 1500.0]
    assert Device.pin_factory.pin(RELAY).function == "output"
    assert board.driver.complaint == "pins are gpiozero's 'mock' (GPIOZERO_PIN_FACTORY), not lgpio's"


def test_actions_reach_the_pins(board: Board) -> None:
    board.driver.open()
    for action, levels in (
        ("LEFT", [1.0, 0.25, 1250.0]),
        ("RIGHT", [1.0, 0.5, 1750.0]),
        ("JUMP", [0.0, 1.0, 2000.0]),
        ("NOOP", [0.0, 0.0, 1500.0]),
    ):
        board.driver.write(order(action))
        assert board.levels() == levels


def test_channels_reach_the_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(tmp_path, continuous())
    board.sysfs.rule(monkeypatch)
    board.driver.open()
    assert board.levels() == [0.0, 0.0, 1500.0]
    board.driver.write(order(None, 0.75, 0.05))
    assert board.levels() == pytest.approx([1.0, 0.1, 1833.333], abs=1e-3)
    board.driver.write(order(None, -0.5, 3.0))
    assert board.levels() == pytest.approx([1.0, 0.9, 1166.667], abs=1e-3)


def test_closed_the_pins_are_low_and_the_servo_stays_neutral(board: Board) -> None:
    board.driver.open()
    board.driver.write(order("JUMP"))
    board.driver.write(order("NOOP"))
    board.driver.close()
    assert board.levels()[1:] == [0.0, 1500.0]
    assert (board.servo.parent / "enable").read_text().strip() == "1"


def test_when_one_output_fails_the_others_go_to_neutral(board: Board) -> None:
    board.driver.open()
    board.driver.write(order("RIGHT"))
    board.sysfs.failing["duty_cycle"] = errno.EIO
    with pytest.raises(DriverError, match=r"^outputs.2: .*/pwm2/duty_cycle: writing 1250000: Input/output error$"):
        board.driver.write(order("LEFT"))
    assert board.levels()[:2] == [0.0, 0.0]
    board.sysfs.failing.clear()
    board.driver.write(order("NOOP"))
    assert board.levels() == [0.0, 0.0, 1500.0]


def test_every_output_that_fails_is_named(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    board.driver.open()
    monkeypatch.setattr(FlakyPin, "failing", True)
    with pytest.raises(DriverError, match=r"^outputs.0: pin 17: GPIOZeroError: the line is gone; outputs.1: pin 22: "):
        board.driver.write(order("JUMP"))
    assert board.levels()[2] == 1500.0


def test_an_output_that_cannot_be_had_keeps_none_of_the_others(board: Board) -> None:
    board.sysfs.failing["export"] = errno.ENODEV
    with pytest.raises(DriverError, match=r"^outputs.2: .*/export: writing 2: No such device$"):
        board.driver.open()
    assert [Device.pin_factory.pin(pin).function for pin in (RELAY, MOTOR)] == ["input", "input"]


def test_a_servo_in_software_says_so(tmp_path: Path) -> None:
    keys = {"actions": ["NOOP"], "neutral": "NOOP"}
    servo = {"kind": "servo", "pin": 4, "actions": {"NOOP": 0.0}, "software_pwm": True}
    driver = GpioDriver(convert({**keys, "outputs": [servo]}), tmp_path / "gpio")
    driver.open()
    assert driver.complaint.startswith("pin 4: servo pulsed in software (software_pwm): it twitches and wears; ")
    pin = Device.pin_factory.pin(4)
    assert (pin.frequency, pin.state) == (50.0, pytest.approx(0.075))


def test_without_the_libraries_it_says_how_to_get_them(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lgpio", None)
    with pytest.raises(DriverError, match=r"pin 17: expected the packages gpiozero and lgpio \(.*pip install 'reflexd"):
        board.driver.open()


def test_a_servo_alone_needs_no_pin_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actuator = discrete()
    board = Board(tmp_path, msgspec.structs.replace(actuator, outputs=actuator.outputs[2:]))
    board.sysfs.rule(monkeypatch)
    monkeypatch.setitem(sys.modules, "lgpio", None)
    board.driver.open()
    assert board.servo.read_text().strip() == "1500000"


# --- no sequence of proposals and failures -----------------------------------------------------------------


class Loop:
    """A Control on the board's driver, with the process's loop around it."""

    def __init__(self, board: Board, limits: Limits, latch: Path) -> None:
        board.driver.open()
        self.board, self.limits, self.now_ns = board, limits, NOW
        writer = Writer(board.driver)
        writer.write("start", limits.neutral)
        self.control = Control(limits, writer, Latch(latch), lambda _: None, NOW)
        self.control.arm()

    @property
    def state(self) -> State:
        return self.control.state

    def let(self, time_ns: int) -> None:
        """Let time pass; the loop wakes whenever the control has said it would."""
        until = self.now_ns + time_ns
        while (due := self.control.due_ns()) is not None and due <= until:
            self.now_ns = max(self.now_ns, due)
            self.control.watch(self.now_ns)
        self.now_ns = until

    def check(self, failing: bool) -> None:
        """What must hold after everything that happens."""
        levels = self.board.levels()
        assert levels[0] in (0.0, 1.0)
        assert 0.0 <= levels[1] <= 1.0
        assert 1000.0 <= levels[2] <= 2000.0
        if not failing and self.control.due_ns() != self.control._retry_ns:
            assert levels == pytest.approx(self.board.expected(self.state.in_force), abs=1e-3)
        if not failing and self.control.due_ns() is None:
            assert levels == pytest.approx(self.board.neutral, abs=1e-3), "nothing but neutral lasts"


VALUES = st.floats(0.0, 0.25) | st.floats(-1.0, 4.0) | st.sampled_from([float("nan"), float("inf"), -1e308, 0.75])
OFTEN = ["propose", "propose", "servo hiccup", "pins hiccup", "mended", "arm"]
EVENTS = st.sampled_from([*OFTEN, *OFTEN, "servo breaks", "pins break", "estop", "clear", "disarm"])
PAUSES = st.sampled_from([60 * MS, 250 * MS, 40 * MS, 20 * MS, 0, 400 * MS])


def propose(data: st.DataObject, loop: Loop) -> ActionProposal:
    return ActionProposal(
        agent=LOW,
        sensor_ns=loop.now_ns - data.draw(st.sampled_from([0, 0, 0, MS, 200 * MS])),
        frame_seq=1,
        action=data.draw(st.sampled_from(["JUMP", "RIGHT", "LEFT", "NOOP", "FLY"])) if loop.limits.actions else None,
        values=data.draw(st.lists(VALUES, min_size=2, max_size=2)) if loop.limits.channels else [],
        confidence=1.0,
    )


def happen(event: str, data: st.DataObject, loop: Loop) -> None:
    if event == "propose":
        loop.control.propose([propose(data, loop)], loop.now_ns)
    elif event == "servo breaks":
        loop.board.sysfs.failing["duty_cycle"] = errno.EIO
    elif event == "pins break":
        FlakyPin.failing = True
    elif event == "mended":
        loop.board.sysfs.failing.clear()
        FlakyPin.failing = False
    elif event.endswith("hiccup"):  # in the middle of one movement
        for part in ("servo breaks" if event.startswith("servo") else "pins break", "propose", "mended"):
            happen(part, data, loop)
    else:
        command = Command(id="command-1", epoch=1, expires_ns=1, operation=event, who="a test")  # type: ignore[arg-type]
        loop.control.operate(command, loop.now_ns)


@settings(max_examples=150)
@given(st.data(), st.sampled_from([(discrete, DISCRETE), (continuous, CONTINUOUS)]), st.booleans())
def test_no_sequence_leaves_a_pin_beyond_its_limits_or_moving_after_the_deadman(
    data: st.DataObject, kind: tuple[Any, Limits], disarms: bool
) -> None:
    make, base = kind
    limits = msgspec.structs.replace(base, disarm_after_deadman=disarms)
    with tempfile.TemporaryDirectory(prefix="rfx-", dir="/dev/shm") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Device, "pin_factory", MockFactory(pin_class=FlakyPin))
        patch.setattr(FlakyPin, "failing", False)
        board = Board(Path(folder), make())
        board.sysfs.rule(patch)
        loop = Loop(board, limits, Path(folder) / "latch")
        for _ in range(data.draw(st.integers(1, 15))):
            loop.let(data.draw(PAUSES))
            happen(data.draw(EVENTS), data, loop)
            loop.check(failing=FlakyPin.failing or bool(board.sysfs.failing))
        happen("mended", data, loop)
        loop.let(limits.deadman_ns + RETRY_NS)
        assert board.levels() == pytest.approx(board.neutral, abs=1e-3)
        assert loop.control.due_ns() is None
