"""``python -m daemon.actuate`` with the PWM folder of ``$REFLEXD_TEST_SYSFS`` in the place of the kernel's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from daemon.actuate import service
from daemon.actuate.drivers import Driver
from daemon.actuate.drivers.gpio import GpioDriver
from daemon.bus import Bus
from daemon.plan import Plan, load_without_packages
from daemon.process import main
from daemon.runtime import RuntimeFolder


def make_driver(plan: Plan, runtime: RuntimeFolder, name: str, bus: Bus) -> Driver:
    """The gpio driver on another folder."""
    folder = runtime.folder / f"gpio@{name}"
    return GpioDriver(plan.config.actuators[name], folder, Path(os.environ["REFLEXD_TEST_SYSFS"]))


if __name__ == "__main__":
    service.make_driver = make_driver
    sys.exit(main("actuate", service.Actuation, read=load_without_packages))
