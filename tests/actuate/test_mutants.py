"""Every small mistake in the valve, its state, the arbiter or the levels of pins must fail one of their unit tests."""

from __future__ import annotations

import types

import pytest

from daemon import outputs
from daemon.actuate import arbiter, state, valve
from tests.actuate import setups, test_arbiter, test_gpio_outputs, test_state, test_valve
from tests.actuate.mutants import UNCHANGED, mutants, survives


@pytest.mark.parametrize(
    ("module", "tests", "least"),
    [
        (valve, test_valve, 200),
        (state, test_state, 25),
        (arbiter, test_arbiter, 20),
        (outputs, test_gpio_outputs, 20),
    ],
)
def test_mutants_are_noticed(
    module: types.ModuleType, tests: types.ModuleType, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module.__name__.rpartition(".")[2]
    survivors, number = [], 0
    for text, mutant in mutants(module):
        number += 1
        with monkeypatch.context() as patch:
            patch.setattr(tests, name, mutant)
            if hasattr(setups, name):
                patch.setattr(setups, name, mutant)
            if survives(tests):
                survivors.append(text)
    assert survivors == [UNCHANGED]
    assert number >= least, "the mutator finds fewer places than it used to"
