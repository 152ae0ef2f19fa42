"""Fixtures of the actuator tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(run_folder: Path) -> Path:
    """A folder on tmpfs, short enough for sockets."""
    return run_folder
