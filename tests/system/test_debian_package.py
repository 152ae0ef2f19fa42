"""The Debian packages of both architectures, built as `make deb` does: what is in them, and what lintian says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import __version__
from daemon.plan import load
from daemon.workers import CHECKOUT
from tests.cross.building import find_tool
from tests.cross.elf import machine

DEBIAN = CHECKOUT / "deploy/debian"
TOOLS = {"dh": "debhelper", "dh_python3": "dh-python", "lowdown": "lowdown", "lintian": "lintian", "man": "man-db"}
MACHINES = {"amd64": "Advanced Micro Devices X86-64", "arm64": "AArch64"}
PROGRAMS = {"reflexd": "daemon.cli", "reflexctl": "daemon.ctl.cli"}
OLDEST_GLIBC = (2, 36)
"""Debian 12's."""

pytestmark = pytest.mark.timeout(900)  # the first may have to wait for the compiler


@pytest.fixture(scope="module", params=MACHINES)
def package(request: pytest.FixtureRequest) -> Path:
    for tool, where in TOOLS.items():
        find_tool(tool, where)
    architecture = request.param
    built = subprocess.run(
        ["make", "-s", f"deb-{architecture}"], cwd=CHECKOUT, capture_output=True, text=True, timeout=800, check=False
    )
    assert built.returncode == 0, built.stderr[-4000:]
    return CHECKOUT / "dist" / f"reflexd_{__version__}_{architecture}.deb"


@pytest.fixture(scope="module")
def tree(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the package puts into a system."""
    folder = tmp_path_factory.mktemp("deb") / "root"
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return folder


def field(package: Path, name: str) -> str:
    return subprocess.run(
        ["dpkg-deb", "--field", package, name], capture_output=True, text=True, check=True
    ).stdout.strip()


def commands(module: str) -> set[str]:
    """Names of the commands, as a command line itself lists them."""
    done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True)
    found = set(re.findall(r"^    ([a-z-]+)(?:  |$)", done.stdout, re.MULTILINE))
    assert "estop" in found
    return found


def page(tree: Path, name: str) -> str:
    """A page as a terminal shows it."""
    path = tree / "usr/share/man" / f"man{name[-1]}" / f"{name}.gz"
    done = subprocess.run(["man", "--local-file", path], capture_output=True, text=True, check=True, env={"LANG": "C"})
    return re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)


def test_lintian_has_nothing_to_say(package: Path) -> None:
    """Of any severity but experimental; what is overridden has its reason in the overrides."""
    done = subprocess.run(
        ["lintian", "--allow-root", "--display-info", "--pedantic", "--fail-on=pedantic,info,warning,error", package],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_it_is_for_one_machine_and_for_debian_12_as_well(package: Path, tree: Path) -> None:
    programs = [path for path in tree.rglob("*") if path.suffix == ".so" or path.name == "reflexd-worker"]
    assert {machine(path) for path in programs} == {MACHINES[field(package, "Architecture")]}
    needs = field(package, "Depends")
    (glibc,) = re.findall(r"\blibc6 \(>= ([0-9.]+)\)", needs)
    assert tuple(map(int, glibc.split("."))) <= OLDEST_GLIBC
    assert "python3-msgspec | python3 (<< 3.12)" in needs
    assert not re.search(r"python3\.\d|-cross", needs), needs


def test_it_has_every_module_but_those_of_the_host(tree: Path) -> None:
    def modules(folder: Path) -> set[str]:
        return {str(path.relative_to(folder)) for path in (folder / "daemon").rglob("*.py")}

    expected = {name for name in modules(CHECKOUT) if not name.startswith("daemon/export/")}
    assert modules(tree / "usr/lib/reflexd") == expected


@pytest.mark.parametrize(("program", "module"), PROGRAMS.items())
def test_the_page_and_the_completion_know_every_command(tree: Path, program: str, module: str) -> None:
    assert f"from {module} import main" in (tree / "usr/bin" / program).read_text()
    script = tree / "usr/share/bash-completion/completions" / program
    assert commands(module) <= set(re.findall(rf"{program} ([a-z-]+)", page(tree, f"{program}.1")))
    ask = f". {script}; COMP_WORDS=({program} ''); COMP_CWORD=1; _shtab_{program} {program} '' {program}"
    said = subprocess.run(
        ["bash", "-c", f"{ask}; echo ${{COMPREPLY[@]}}; complete -p"], capture_output=True, text=True, check=True
    ).stdout
    assert commands(module) <= set(said.splitlines()[0].split())
    assert f"-o default -F _shtab_{program} {program}" in said


def test_the_pages_have_what_the_documents_have(tree: Path) -> None:
    assert "admission" in page(tree, "reflexd.toml.5")
    assert "purge" in page(tree, "reflexd.target.7")


def test_the_configuration_it_brings_is_good_and_arms_nothing(tree: Path, tmp_path: Path) -> None:
    text = (tree / "etc/reflexd/reflexd.toml").read_text()
    copy = tmp_path / "reflexd.toml"
    copy.write_text(text.replace("/usr/share/reflexd", str(tree / "usr/share/reflexd")))
    config = load(copy).config
    assert not any(actuator.arm_on_start for actuator in config.actuators.values())
    assert {actuator.driver for actuator in config.actuators.values()} == {"log"}


def test_the_changelog_is_of_this_version() -> None:
    assert (DEBIAN / "changelog").read_text().startswith(f"reflexd ({__version__})")
