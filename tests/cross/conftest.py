"""What the tests of the native worker share: the programs, built once per run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cross.building import ROOT, build, find_tool
from tests.cross.probe import Probe
from tests.peers import EMULATION

_CROSS = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64-static": "qemu-user-static"}
_SANITIZED = "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A first test may have to wait for the compiler."""
    for item in items:
        if "probe" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session", params=["host", "aarch64"])
def probe(request: pytest.FixtureRequest) -> Iterator[Probe]:
    """The C++ decoders: on this machine with ASan and UBSan, and the Arm build under qemu."""
    command = _host() if request.param == "host" else _aarch64()
    probe = Probe(*command)
    yield probe
    probe.close()


def _host() -> list[str]:
    find_tool("c++", "g++ libmsgpack-cxx-dev nlohmann-json3-dev")
    return [_build("protocol", f"-DCMAKE_CXX_FLAGS={_SANITIZED}")]


def _aarch64() -> list[str]:
    for program, package in _CROSS.items():
        find_tool(program, package)
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cross/toolchains/aarch64.cmake'}"
    probe = _build("protocol-aarch64", toolchain, "-DCMAKE_BUILD_TYPE=Release")
    return [*EMULATION, probe]


def _build(name: str, *options: str) -> str:
    return str(
        build(name, ROOT / "cross/protocol", "protocol-probe", "-DREFLEXD_TESTS=ON", *options) / "protocol-probe"
    )
