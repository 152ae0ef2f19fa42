"""The daemon and the operator of the tests of ``reflexctl``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ctl.operators import Operator
from tests.gateway_daemon import free_port, running
from tests.packages import tiny_package


@pytest.fixture
def operator(run_folder: Path) -> Iterator[Operator]:
    """Beside a daemon that runs and lets clients in over TCP, of which none is trusted yet."""
    port = free_port()
    gateway = f'listen = "127.0.0.1"\nport = {port}'
    with running(run_folder, tiny_package(run_folder / "good"), gateway=gateway) as daemon:
        yield Operator(run_folder / "operator", daemon, port)
