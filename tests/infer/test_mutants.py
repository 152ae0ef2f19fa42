"""Five hundred damaged programs that the hashes let through: refused, or they compute the same; and nothing dies of it.

The native worker meets all of them, the Python one, whose check takes longer, a few.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from daemon.infer.pool import MAX_LOST_IN_A_ROW
from daemon.infer.verify import Verdict, verify_in_process
from daemon.messages import RunDone, RunFailed
from tests.infer.mutants import damage
from tests.infer.programs import with_program
from tests.infer.rig import Rig
from tests.packages import tiny_package
from tests.peers import BUILD_LIMIT_S, worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_LIMIT_S)]

REPOSITORY = Path(__file__).parents[2]
COUNT = 500
MOST = 3000  # about one in a hundred kills its check; which do depends on how the exporter laid the program out
CHECK_S = 20.0


class Mutant(NamedTuple):
    """A damaged program and what the native worker's check said of it."""

    what: str
    program: bytes
    verdict: Verdict


def died(mutant: Mutant) -> bool:
    """Its check ended by a signal."""
    return "died by signal" in mutant.verdict.detail


def damaged(package: Path, seed: int) -> Iterator[Mutant]:
    """Checked copies of a package, without end; those that happen to equal it are left out."""
    good = (package / "model.pte").read_bytes()
    rng = random.Random(seed)
    while True:
        program = bytearray(good)
        what = damage(program, rng)
        if program != good:
            verdict = verify_in_process(worker("native"), with_program(package, bytes(program)), 1, CHECK_S)
            yield Mutant(what, bytes(program), verdict)


@pytest.fixture(scope="module")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> list[Mutant]:
    """Five hundred, and as many more as it takes to have one that kills its check."""
    package = tiny_package(tmp_path_factory.mktemp("mutants") / "package")
    source = damaged(package, seed=2)
    found = [next(source) for _ in range(COUNT)]
    while not any(map(died, found)) and len(found) < MOST:
        found.append(next(source))
    return found


def test_native_checks_refuse_mutants_or_find_that_they_compute_the_same(mutants: list[Mutant]) -> None:
    """ "ok" means that every golden came out within the tolerance: the damage was in nothing that matters."""
    good = [mutant for mutant in mutants if mutant.verdict.ok]
    print(f"{len(mutants)} mutants: {len(good)} compute the same, {sum(map(died, mutants))} checks died by a signal")
    assert 4 * len(good) < len(mutants)
    assert all(mutant.verdict.detail for mutant in mutants if not mutant.verdict.ok)
    late = [mutant.what for mutant in mutants if "did not finish" in mutant.verdict.detail]
    assert not late


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A pool of one native worker with a good model."""
    rig = Rig(tmp_path, worker("native"))
    try:
        rig.add("good", tiny_package(tmp_path / "good"))
        rig.until(lambda: rig.pool.can_run("good"))
        yield rig
    finally:
        rig.pool.close()


def settle(rig: Rig, package: Path, mutant: Mutant) -> str:
    """Hand a mutant to the live worker; why it was set aside, or nothing if it was loaded."""
    rig.add(package.name, with_program(tiny_package(package), mutant.program))
    rig.until(lambda: rig.pool.can_run(package.name) or package.name in rig.pool.load_failures)
    return rig.pool.load_failures.get(package.name, "")


def test_mutants_that_pass_the_check_run_beside_a_good_model(rig: Rig, tmp_path: Path, mutants: list[Mutant]) -> None:
    passed = [mutant for mutant in mutants if mutant.verdict.ok]
    for number, mutant in enumerate(passed):
        package = tmp_path / f"mutant{number}"
        assert settle(rig, package, mutant) == "", mutant.what
        assert isinstance(rig.result(package.name), RunDone | RunFailed)
        assert isinstance(rig.result("good"), RunDone), mutant.what
    assert passed
    assert rig.pool.replaced == 0


def test_mutants_that_kill_their_check_would_be_set_aside_by_the_pool(
    rig: Rig, tmp_path: Path, mutants: list[Mutant]
) -> None:
    """Nobody hands them to a worker; if somebody did, the other models would go on."""
    deadly = [mutant for mutant in mutants if died(mutant)]
    for number, mutant in enumerate(deadly):
        why = settle(rig, tmp_path / f"mutant{number}", mutant)
        assert f"took down {MAX_LOST_IN_A_ROW + 1} workers in a row" in why, (mutant.what, why)
        assert isinstance(rig.result("good"), RunDone)
    assert deadly, f"none of {len(mutants)} mutants killed its check: this test has nothing to show"


def checked_by_python(package: Path, count: int, seed: int, limit_s: float) -> Counter[str]:
    command = [sys.executable, "-m", "tests.infer.mutants", str(package), str(count), str(seed)]
    run = subprocess.run(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=limit_s, check=True
    )
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(results) == count
    return Counter(result["outcome"] for result in results if not result["same"])


def test_python_checks_refuse_mutants_or_find_that_they_compute_the_same(tmp_path: Path) -> None:
    outcomes = checked_by_python(tiny_package(tmp_path / "package"), count=40, seed=1, limit_s=200)
    assert outcomes["refused"] > outcomes["ok"]
    assert outcomes["timeout"] == 0


@pytest.mark.soak
def test_five_hundred_mutants_checked_by_python(tmp_path: Path) -> None:
    outcomes = checked_by_python(tiny_package(tmp_path / "package"), count=500, seed=2, limit_s=900)
    assert outcomes["refused"] > outcomes["ok"]
