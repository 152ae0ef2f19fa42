"""The way down when camera memory is short: which steps, in which order, and what is said at the end."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.capture.ladder import LEAST_BUFFERS, LEAST_SIDE, OutOfMemory, Step, go_down, pool_text, steps
from daemon.capture.source import SourceFailed


def test_buffers_go_first_then_the_full_stream_then_the_picture() -> None:
    found = list(steps(Step(4, 320, 240, 1640, 1232), may_shrink=True))
    assert found == [
        Step(4, 320, 240, 1640, 1232),
        Step(3, 320, 240, 1640, 1232),
        Step(2, 320, 240, 1640, 1232),
        Step(2, 320, 240, 820, 616),
        Step(2, 320, 240, 410, 308),
        Step(2, 160, 120, 410, 308),
    ]


def test_a_picture_that_views_are_cut_out_of_stays_as_it_is() -> None:
    assert list(steps(Step(3, 640, 480), may_shrink=False)) == [Step(3, 640, 480), Step(2, 640, 480)]


@given(st.integers(2, 16), st.integers(16, 4096), st.integers(16, 4096), st.integers(0, 9000), st.booleans())
def test_the_ladder_ends_and_never_goes_up(buffers: int, width: int, height: int, full: int, may_shrink: bool) -> None:
    first = Step(buffers, width, height, full, full)
    found = list(steps(first, may_shrink))
    assert found[0] == first
    assert len(found) < 40
    for above, below in pairwise(found):
        assert all(b <= a for a, b in zip(above, below, strict=True))
        assert above != below
        assert below.buffers >= LEAST_BUFFERS
        assert below.width == width or min(below.width, below.height) >= LEAST_SIDE - 1
        assert (below.width, below.height) == (width, height) or below.width % 2 == below.height % 2 == 0


def test_the_first_step_with_memory_is_kept() -> None:
    tried: list[Step] = []

    def configure(step: Step) -> None:
        tried.append(step)
        if step.buffers > 2:
            raise OutOfMemory

    assert go_down(steps(Step(5, 64, 64), may_shrink=False), configure) == Step(2, 64, 64)
    assert [step.buffers for step in tried] == [5, 4, 3, 2]


def test_no_memory_at_all_is_said_with_the_pool(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 1 kB\nCmaTotal:       65536 kB\nCmaFree:          512 kB\n")

    def configure(_: Step) -> None:
        raise OutOfMemory

    with pytest.raises(SourceFailed, match=r"neither for 3 buffers of 64x64 nor for 2 .*pool has 64 MiB, 0 free"):
        go_down(steps(Step(3, 64, 64), may_shrink=False), configure, meminfo)
    meminfo.write_text("MemTotal: 1 kB\n")
    assert pool_text(meminfo) == "this kernel has no pool of contiguous memory"


def test_other_failures_are_not_taken_for_short_memory() -> None:
    def configure(_: Step) -> None:
        raise SourceFailed("camera 0: it burns")

    with pytest.raises(SourceFailed, match="it burns"):
        go_down(steps(Step(3, 64, 64), may_shrink=False), configure)
