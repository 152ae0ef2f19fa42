"""reflexd as services of a real systemd, with nothing but Debian's packages: `make lab`."""

from __future__ import annotations

import os
import random
import shutil
import signal
import statistics
import time
from collections.abc import Iterator

import pytest

from tests.lab.systemd.acting import GOOD, RECOVERY_S, UNITS, acts_again, decided, main_pid, states, stop, written
from tests.lab.systemd.machine import CONFIG, Machine, installed, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

BROKEN = {
    "not TOML": ("[daemon\n", "not TOML", ["reflexd-infer"]),
    "a bad value": (
        GOOD.replace("deadman_ms = 250.0", "deadman_ms = -1.0"),
        "actuators.arm.deadman_ms = -1.0",
        ["reflexd-infer", "reflexd-capture@cam", "reflexd-actuate@arm"],
    ),
    "no package": (
        GOOD.replace("/usr/share/reflexd/pong", "/nowhere"),
        "agents.watcher.package = '/nowhere'",
        ["reflexd-infer", "reflexd-capture@cam"],
    ),
}
STOP_S = 2.0
SAFE_MS = {signal.SIGKILL: 1_500.0, signal.SIGSTOP: 2_500.0}
"""From the end, or hang, of an actuator's process to neutral: a start of Python on a busy machine, and the watchdog."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with installed(tmp_path_factory.mktemp("lab"), GOOD) as found:
        found.chroot("systemctl", "enable", "reflexd.target")
        found.boot()
        yield found


@pytest.fixture
def acting(machine: Machine) -> Machine:
    """The machine, with the good configuration at work."""
    (machine.root / CONFIG).write_text(GOOD)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "reflexd.target")
    acts_again(machine)
    return machine


def worker_pids(machine: Machine) -> set[int]:
    group = machine.show("reflexd-infer", "ControlGroup")
    pids = {int(pid) for pid in machine.run("cat", f"/sys/fs/cgroup{group}/cgroup.procs").split()}
    return pids - {main_pid(machine, "reflexd-infer")}


def mounts(machine: Machine, unit: str) -> dict[str, str]:
    """Mount point to options, as the process of a unit sees them."""
    lines = machine.run("cat", f"/proc/{main_pid(machine, unit)}/mountinfo").splitlines()
    return {line.split()[4]: line.split()[5] for line in lines}


def test_it_acts_from_boot_without_torch(machine: Machine) -> None:
    wait_for(lambda: bool(decided(machine, 0)), RECOVERY_S, "a first action after boot")
    first = decided(machine, 0)[0]
    booted_us = int(machine.run("systemctl", "show", "-P", "UserspaceTimestampMonotonic"))
    print(f"boot to first action: {first['t_ns'] / 1e9 - booted_us / 1e6:.2f} s")
    assert first["agent"] == "watcher"
    lacking = "import importlib.util as u; print([n for n in ('torch', 'executorch', 'pip') if u.find_spec(n)])"
    assert machine.run("python3", "-c", lacking) == "[]"
    wait_for(lambda: machine.run("systemctl", "is-system-running", check=False) == "running", 10.0, "all is well")


def test_systemd_has_nothing_to_say_against_the_units(machine: Machine) -> None:
    units = [f"{unit}.service" for unit in [*UNITS, "reflexd-simulate@table"]]
    assert machine.run("systemd-analyze", "verify", "--man=no", "reflexd.target", *units) == ""
    for unit in units:
        print(machine.run("systemd-analyze", "security", "--threshold=20", unit).splitlines()[-1])


def test_the_status_reads_well(acting: Machine) -> None:
    def text(unit: str) -> str:
        return acting.show(unit, "StatusText")

    wait_for(lambda: "decided" in text("reflexd-infer"), 5.0, "figures")
    wait_for(lambda: "in force" in text("reflexd-actuate@arm"), 5.0, "the valve")
    texts = {unit: text(unit) for unit in UNITS}
    print(texts)
    assert texts["reflexd-capture@cam"].startswith("running: ")
    assert texts["reflexd-infer"].startswith("running: watcher ")
    assert texts["reflexd-actuate@arm"].startswith("running: armed, ")
    assert "main/arm: status:" in acting.run("reflexd", "status")


def test_neutral_by_hand_is_refused_while_the_service_has_the_actuator(acting: Machine) -> None:
    said = acting.run("reflexd", "neutral", f"/{CONFIG}", check=False)
    assert f"process {main_pid(acting, 'reflexd-actuate@arm')} has the actuator" in said
    assert "systemctl stop reflexd-actuate@arm" in said


def test_the_journal_has_fields(acting: Machine) -> None:
    assert any("agent watcher: ready" in str(entry["MESSAGE"]) for entry in acting.journal("AGENT=watcher"))
    entries = acting.journal("PROCESS=actuate@arm")
    assert entries
    assert (
        entries[-1].items()
        >= {"KIND": "actuate", "INSTANCE": "arm", "SYSLOG_IDENTIFIER": "reflexd-actuate@arm"}.items()
    )


def test_processes_have_no_power_and_their_own_groups(acting: Machine) -> None:
    groups = {"reflexd-capture@cam": {"video"}, "reflexd-infer": set(), "reflexd-actuate@arm": {"gpio"}}
    for unit, expected in groups.items():
        status = acting.run("cat", f"/proc/{main_pid(acting, unit)}/status")
        fields = {key: value.strip() for key, _, value in (line.partition(":") for line in status.splitlines())}
        names = {acting.run("getent", "group", number).split(":")[0] for number in fields["Groups"].split()}
        assert names - {"reflexd"} == expected
        assert {fields[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {"0" * 16}
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


def test_a_group_reaches_what_belongs_to_it_and_sysfs_is_writable_for_pins_alone(acting: Machine) -> None:
    """PrivateUsers= hides the group's name, not its meaning; and ReadWritePaths= holds inside a read-only /sys."""
    acting.run("sh", "-c", "echo reached >/srv/pin && chgrp gpio /srv/pin && chmod 640 /srv/pin")
    options = ["-p", "User=reflexd", "-p", "PrivateUsers=yes", "-p", "SupplementaryGroups=gpio"]
    assert acting.run("systemd-run", "-q", "--pipe", *options, "cat", "/srv/pin") == "reached"
    stop(acting)
    # As on a device: a container's own /sys is read-only to begin with.
    acting.run("sh", "-c", "for m in /sys/[bcdk]*; do umount -q $m; done; mount -o remount,rw,bind /sys")
    acting.run("systemctl", "start", *UNITS)
    for unit in UNITS:
        writable = {path for path, options in mounts(acting, unit).items() if options.startswith("rw")}
        expected = {"/sys/devices/platform"} if unit.startswith("reflexd-actuate") else set()
        assert {path for path in writable if path.startswith("/sys/") and "cgroup" not in path} == expected
        assert {"/run/reflexd", "/var/lib/reflexd"} <= writable
        assert "/" not in writable


def test_each_process_starts_alone_and_waits_for_the_others(acting: Machine) -> None:
    stop(acting)
    for unit, said in (("reflexd-infer", "waiting: no frames from cam"), ("reflexd-actuate@arm", "running: armed")):
        acting.run("systemctl", "start", unit)  # returns when it is ready
        wait_for(lambda: acting.show(unit, "StatusText").startswith(said), 5.0, said)  # noqa: B023
    time.sleep(4.0)  # longer than any watchdog
    assert {acting.show(unit, "NRestarts") for unit in UNITS} == {"0"}
    acting.run("systemctl", "start", "reflexd-capture@cam")
    acts_again(acting)


def test_a_refused_agent_and_an_absent_camera_are_no_hang(acting: Machine) -> None:
    package = acting.root / "usr/share/reflexd/damaged"
    shutil.copytree(acting.root / "usr/share/reflexd/pong", package)
    (package / "model.pte").write_bytes(b"not a model")
    stop(acting)
    second = GOOD[GOOD.index("[agents.watcher]") :].replace("watcher", "second").replace('arm"', 'leg"')
    second = second.replace("[actuators.arm]", "[actuators.leg]").replace("/pong", "/damaged")
    (acting.root / CONFIG).write_text(GOOD + second)
    acting.run("systemctl", "daemon-reload")
    acting.run("systemctl", "start", "reflexd.target")
    wait_for(lambda: "second refused" in acting.show("reflexd-infer", "StatusText"), RECOVERY_S, "a refused agent")
    acting.run("systemctl", "stop", "reflexd-capture@cam")
    time.sleep(8.0)  # longer than the limit on progress and the watchdog together
    print(acting.show("reflexd-infer", "StatusText"))
    assert acting.show("reflexd-infer", "NRestarts") == "0"
    stop(acting)


def test_a_restart_of_the_target_reaches_every_unit(acting: Machine) -> None:
    old = {main_pid(acting, unit) for unit in UNITS}
    acting.run("systemctl", "restart", "reflexd.target")
    acts_again(acting)
    assert not old & {main_pid(acting, unit) for unit in UNITS}


def test_everything_killed_at_once_is_neutral_and_comes_back(acting: Machine) -> None:
    acting.run("systemctl", "kill", "--signal=KILL", "--kill-whom=all", "reflexd-*.service")
    struck_ns = time.monotonic_ns()
    wait_for(lambda: bool(decided(acting, struck_ns)), RECOVERY_S, "an action on a frame from after the fault")
    after = [line for line in written(acting) if line["t_ns"] > struck_ns]
    assert after[0]["action"] == "NOOP"
    assert after[0]["t_ns"] - struck_ns < SAFE_MS[signal.SIGKILL] * 1e6
    neutral_ms, acts_ms = ((line["t_ns"] - struck_ns) / 1e6 for line in (after[0], decided(acting, struck_ns)[0]))
    print(f"all killed: neutral after {neutral_ms:.0f} ms, acts again after {acts_ms:.0f} ms")


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=lambda sent: sent.name)
@pytest.mark.parametrize("unit", UNITS)
def test_a_process_that_dies_or_hangs_is_replaced(acting: Machine, unit: str, sent: signal.Signals) -> None:
    old, workers = main_pid(acting, unit), worker_pids(acting)
    acting.kill(old, sent)
    struck_ns = time.monotonic_ns()
    # A hung process that is woken to be ended may still publish a last picture.
    wait_for(lambda: main_pid(acting, unit) not in (0, old), RECOVERY_S, "another process")
    replaced_ns = time.monotonic_ns()
    wait_for(lambda: bool(decided(acting, replaced_ns)), RECOVERY_S, "an action on a frame from after the fault")
    print(f"{unit} {sent.name}: acts again after {(decided(acting, replaced_ns)[0]['t_ns'] - struck_ns) / 1e6:.0f} ms")
    if unit == "reflexd-infer":
        assert not workers & worker_pids(acting), "the old worker lives on"
    if unit == "reflexd-actuate@arm":
        first = next(line for line in written(acting) if line["t_ns"] > struck_ns)
        took_ms = (first["t_ns"] - struck_ns) / 1e6
        print(f"{unit} {sent.name}: neutral after {took_ms:.0f} ms ({first['cause']})")
        assert (first["action"], first["cause"]) == ("NOOP", "stop"), "not written by ExecStopPost"
        assert took_ms < SAFE_MS[sent]
    if sent == signal.SIGSTOP:
        assert "watchdog" in " ".join(str(entry["MESSAGE"]) for entry in acting.journal("-u", unit, "-n", "40")).lower()


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=lambda sent: sent.name)
def test_a_worker_is_replaced_by_infer_itself(acting: Machine, sent: signal.Signals) -> None:
    infer, (worker,) = main_pid(acting, "reflexd-infer"), worker_pids(acting)
    acting.kill(worker, sent)
    struck_ns = time.monotonic_ns()
    wait_for(lambda: bool(decided(acting, struck_ns)), RECOVERY_S, "an action on a frame from after the fault")
    print(f"worker {sent.name}: acts again after {(decided(acting, struck_ns)[0]['t_ns'] - struck_ns) / 1e6:.0f} ms")
    assert main_pid(acting, "reflexd-infer") == infer
    assert worker not in worker_pids(acting)


def test_random_kills(acting: Machine) -> None:
    """REFLEXD_LAB_KILLS of them. The pause before a restart grows with their number, but for the actuator."""
    draw = random.Random(11)
    took_ms: dict[str, list[float]] = {}
    for _ in range(int(os.environ.get("REFLEXD_LAB_KILLS", "20"))):
        unit = draw.choice([*UNITS, "worker"])
        (worker,) = worker_pids(acting)
        acting.kill(worker if unit == "worker" else main_pid(acting, unit), signal.SIGKILL)
        struck_ns = time.monotonic_ns()
        wait_for(lambda: bool(decided(acting, struck_ns)), RECOVERY_S, f"an action after {unit} was killed")  # noqa: B023
        took_ms.setdefault(unit, []).append((decided(acting, struck_ns)[0]["t_ns"] - struck_ns) / 1e6)
        if unit == "reflexd-actuate@arm":
            first = next(line for line in written(acting) if line["t_ns"] > struck_ns)
            assert first["action"] == "NOOP"
            assert first["t_ns"] - struck_ns < SAFE_MS[signal.SIGKILL] * 1e6
        time.sleep(draw.uniform(0.0, 0.3))
    for unit, times in sorted(took_ms.items()):
        print(
            f"{unit}: {len(times)} kills, acts again after {statistics.median(times):.0f} ms, {max(times):.0f} at most"
        )


def test_a_hung_process_leaves_its_stack_in_the_journal(acting: Machine) -> None:
    acting.kill(main_pid(acting, "reflexd-infer"), signal.SIGSTOP)
    acts_again(acting)
    text = " ".join(str(entry["MESSAGE"]) for entry in acting.journal("-u", "reflexd-infer"))
    assert "Fatal Python error: Aborted" in text
    assert "in _main_loop" in text


def test_no_number_of_deaths_locks_a_start_out(acting: Machine) -> None:
    for _ in range(8):
        old = main_pid(acting, "reflexd-actuate@arm")
        acting.kill(old, signal.SIGKILL)
        wait_for(lambda: main_pid(acting, "reflexd-actuate@arm") not in (0, old), RECOVERY_S, "a new process")  # noqa: B023
    acts_again(acting)
    for _ in range(8):
        acting.run("systemctl", "restart", "reflexd-actuate@arm")
    acts_again(acting)


def test_a_latched_emergency_stop_survives_a_restart_of_everything(acting: Machine) -> None:
    acting.run("reflexd", "estop")
    latched_ns = time.monotonic_ns()
    stop(acting)
    acting.run("systemctl", "start", "reflexd.target", *UNITS)
    time.sleep(1.0)
    assert "e-stop" in acting.show("reflexd-actuate@arm", "StatusText")
    assert decided(acting, latched_ns) == []
    acting.run("reflexd", "clear")
    acting.run("reflexd", "arm")
    acts_again(acting)


def test_everything_stops_soon_and_neutral(acting: Machine) -> None:
    took = stop(acting)
    print(f"stop: {took:.2f} s")
    assert took < STOP_S
    assert states(acting) == {"inactive"}
    assert {acting.show(unit, "Result") for unit in UNITS} == {"success"}
    assert (written(acting)[-1]["action"], written(acting)[-1]["cause"]) == ("NOOP", "stop")
    assert acting.run("find", "/proc", "-maxdepth", "1", "-user", "reflexd") == ""
    rings = acting.root / "run/reflexd/main/rings"
    assert not rings.exists() or not list(rings.iterdir())


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_configuration_fails_once_and_says_why(acting: Machine, name: str) -> None:
    text, why, failing = BROKEN[name]
    stop(acting)
    (acting.root / CONFIG).write_text(text)
    acting.run("systemctl", "daemon-reload")
    acting.run("systemctl", "start", "reflexd.target")
    wait_for(lambda: {acting.show(unit, "ActiveState") for unit in failing} == {"failed"}, 10.0, "failed units")
    time.sleep(2.0)
    for unit in failing:
        assert (acting.show(unit, "ActiveState"), acting.show(unit, "NRestarts")) == ("failed", "0")
        said = [entry["MESSAGE"] for entry in acting.journal("-u", unit, f"_PID={acting.show(unit, 'ExecMainPID')}")]
        assert any(why in str(message) for message in said), said
        assert why in acting.show(unit, "StatusText")
    print(acting.show(failing[0], "StatusText"))


def test_the_next_start_after_a_mended_configuration_works(acting: Machine) -> None:
    """What the tests before have left failed is started by hand, with nothing to be reset first."""
    assert states(acting) == {"active"}
