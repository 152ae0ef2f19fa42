"""Versions, processors, the worker, and libraries that do not fit one another any more after an upgrade."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from daemon.doctor.libraries import libraries
from daemon.doctor.machine import Machine
from daemon.doctor.setup import Setup, pairing, read_setup
from daemon.doctor.software import bits, processor, realtime, software, system, worker
from daemon.plan import load
from daemon.versions import versions
from tests.doctor.test_devices import RELAY, SERVO, setup
from tests.doctor.trees import PI_5, machine, only

NONE = Setup()
PONG = Path(__file__).parents[2] / "models" / "pong" / "demo.toml"
A53 = "processor\t: 0\nFeatures\t: fp asimd evtstrm crc32 cpuid\nCPU part\t: 0xd03\n"
UNKNOWN = "processor\t: 0\nFeatures\t: fp asimd i8mm\nCPU part\t: 0xfff\n"
X86 = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu sse2 avx2 avx512f avx512_vnni\n"


# --- versions and the processor ----------------------------------------------------------------------------


def test_the_system_is_named_with_its_board(tmp_path: Path) -> None:
    release = {"/etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n'}
    found = only(system(machine(tmp_path, PI_5, release), NONE)).found
    assert found.startswith("Raspberry Pi 5 Model B Rev 1.0, Debian GNU/Linux 12 (bookworm), Linux ")


def test_a_package_that_is_not_installed_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(software(machine(tmp_path), NONE)).status == "ok"
    monkeypatch.setattr("daemon.doctor.software.versions", lambda: {**versions(), "pyzmq": "not installed"})
    finding = only(software(machine(tmp_path), NONE))
    assert (finding.status, finding.fix) == ("fail", "sudo apt install python3-zmq")


def test_a_32_bit_python_fails_whatever_the_kernel_calls_itself() -> None:
    assert list(bits(64, "aarch64")) == []
    finding = only(bits(32, "aarch64"))
    assert finding.status == "fail"
    assert "64-bit Raspberry Pi OS" in finding.fix


@pytest.mark.parametrize(
    ("cpuinfo", "text"),
    [
        (PI_5["/proc/cpuinfo"], "4 x Cortex-A76; kernels beside the common ones: int8 dot product, fp16"),
        (A53, "1 x Cortex-A53; kernels beside the common ones: none for int8 dot products or fp16"),
        (UNKNOWN, "1 x Arm part 0xfff; kernels beside the common ones: int8 matrices"),
        (X86, "1 x Some CPU; kernels beside the common ones: AVX2, AVX-512, int8 dot product"),
    ],
)
def test_the_processor_and_what_the_runtime_makes_of_it(tmp_path: Path, cpuinfo: str, text: str) -> None:
    finding = only(processor(machine(tmp_path, {"/proc/cpuinfo": cpuinfo}), NONE))
    assert finding.status == "ok"
    assert finding.found.startswith(text)


@pytest.mark.parametrize(
    ("runtime", "status", "text"),
    [
        ("950000", "ok", "arm: asked for; the kernel lets it have 95 % of the time at most"),
        ("-1", "ok", "all the time"),
        ("0", "warn", "arm: this kernel gives real-time processes no time"),
        ("", "skip", "does not say"),
    ],
)
def test_real_time_where_it_is_asked_for(tmp_path: Path, runtime: str, status: str, text: str) -> None:
    files = {
        "/proc/sys/kernel/sched_rt_period_us": "1000000\n",
        "/proc/sys/kernel/sched_rt_runtime_us": f"{runtime}\n",
    }
    asking = setup(tmp_path, actuator='driver = "log"\nrealtime = true')
    finding = only(realtime(machine(tmp_path, files), asking))
    assert finding.status == status
    assert text in finding.found
    assert only(realtime(machine(tmp_path, files), NONE)).found == "no actuator asks for it"


# --- the worker --------------------------------------------------------------------------------------------


def test_a_worker_that_does_not_run_here_is_a_warning_while_python_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one for another processor: it dies of an illegal instruction."""
    binary = tmp_path / "reflexd-worker"
    binary.write_text("#!/bin/sh\nkill -ILL $$\n")
    binary.chmod(0o755)
    monkeypatch.setenv("REFLEXD_WORKER", str(binary))
    finding = next(worker(Machine(), NONE))
    assert finding.status == "warn"
    assert "died by signal SIGILL" in finding.found


def test_no_worker_at_all_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEXD_WORKER", "/nowhere/reflexd-worker")
    monkeypatch.setattr("daemon.workers.python_lacks", lambda: "the Python worker needs torch")
    finding = only(worker(Machine(), NONE))
    assert finding.status == "fail"
    assert "neither worker can run" in finding.found


def test_a_worker_that_was_chosen_is_no_warning(tmp_path: Path) -> None:
    python = tmp_path / "python.toml"
    text = PONG.read_text().replace('package = "package"', f'package = "{PONG.parent / "package"}"')
    python.write_text(text.replace("[infer]", '[infer]\nworker = "python"'))
    findings = list(worker(Machine(), read_setup(python)))
    assert [(finding.status, finding.found) for finding in findings] == [("ok", "python, as the configuration asks")]


def test_a_package_of_another_executorch_is_a_warning() -> None:
    here = load(PONG)
    old = msgspec.structs.replace(here.manifests["player"], built_with={"executorch": "1.4.0"})
    plan = msgspec.structs.replace(here, manifests={"player": old})
    assert list(pairing(Setup(PONG, here), {})) == []
    finding = only(pairing(Setup(PONG, plan), {}))
    assert finding.status == "warn"
    assert "agent player: its package was made with ExecuTorch 1.4.0" in finding.found


def test_a_worker_of_another_executorch_than_the_host_side_is_a_warning() -> None:
    finding = only(pairing(NONE, {"worker": "0.1.0", "executorch": "1.4.0"}))
    assert finding.found == f"the native worker has ExecuTorch 1.4.0, Python here {versions()['executorch']}"


# --- libraries ---------------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules are found before the installed ones, by the processes the doctor starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


NUMPY_ABI = "numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88"
NO_CORE = "numpy.core.multiarray failed to import"
NOT_CONVERTED = "/lib/aarch64-linux-gnu/libcamera.so.0.5: undefined symbol: _ZN9libcamera"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (f"raise ValueError({NUMPY_ABI!r})", NUMPY_ABI),
        (f"raise ImportError({NO_CORE!r})", NO_CORE),
        (f"raise ImportError({NOT_CONVERTED!r})", NOT_CONVERTED),
        ("import libcamera_that_only_the_system_has", "No module named 'libcamera_that_only_the_system_has'"),
        ("import os; os.kill(os.getpid(), 11)", "died by signal SIGSEGV"),
        ("raise SystemExit(3)", "no word"),
    ],
)
def test_a_library_that_does_not_load_after_an_upgrade_says_so_in_its_own_words(
    site: Path, program: str, said: str
) -> None:
    (site / "picamera2.py").write_text(program)
    finding = next(libraries(Machine(), NONE))
    assert (finding.check, finding.status) == ("library picamera2", "fail")
    assert said in finding.found
    assert "full-upgrade" in finding.fix


def test_a_library_that_is_slow_to_load_is_not_waited_for(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (site / "picamera2.py").write_text("import time; time.sleep(60)")
    monkeypatch.setattr("daemon.doctor.machine.COMMAND_LIMIT_S", 0.2)
    finding = next(libraries(Machine(), NONE))
    assert (finding.status, finding.found) == ("warn", "importing it did not finish within 0.2 s")


def test_a_library_that_is_missing_fails_only_who_needs_it(tmp_path: Path, site: Path) -> None:
    for name in ("picamera2", "av", "gpiozero", "lgpio"):
        (site / f"{name}.py").write_text(f'raise ModuleNotFoundError("No module named {name!r}")')
    needy = setup(tmp_path, 'kind = "picamera2"', RELAY)
    found = {finding.check: finding for finding in libraries(Machine(), needy)}
    assert found["library picamera2"].found == "not installed, and sources.eye needs it"
    assert "python3-picamera2" in found["library picamera2"].fix
    assert found["library gpiozero"].found == "not installed, and actuators.arm needs it"
    assert found["library lgpio"].status == "fail"
    assert found["library av"].status == "skip"
    for frugal in (NONE, setup(tmp_path, actuator=SERVO)):
        assert [finding.status for finding in libraries(Machine(), frugal)][:4] == ["skip"] * 4


def test_looking_leaves_no_pipe_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """lgpio makes one in the current folder as soon as it is imported, and cannot load where it is not allowed to."""
    monkeypatch.chdir("/proc")
    found = {finding.check: finding for finding in libraries(Machine(), NONE)}
    assert found["library lgpio"].found == "loads"
