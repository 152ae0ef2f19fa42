"""``reflexd neutral``: writes neutral in the place of an actuator's process that is gone.

A process that was killed wrote nothing any more, and some hardware goes on with the last thing it was told. A service
manager runs this after every end of the process (``ExecStopPost=`` of systemd).
"""

from __future__ import annotations

from daemon.actuate.control import STOP_TRIES
from daemon.actuate.drivers import Driver, DriverError
from daemon.actuate.limits import Setting, build_limits
from daemon.actuate.service import make_driver
from daemon.actuate.writer import Writer
from daemon.bus import Bus
from daemon.plan import Plan
from daemon.runtime import SERVICES_RUNTIME, InstanceLock, RuntimeFolder, lock_in, owner_of


class NotNeutral(RuntimeError):
    """Neutral was not written; the text says why and what to do."""


def write_neutral(plan: Plan, name: str) -> str:
    """Write neutral to actuator ``name``, whose process must be gone; return what was done, for people.

    Raises:
        ConfigError: no such actuator, or a table that cannot be.
        RuntimeFolderError: no folder to look for the process in.
        NotNeutral: the process is there, or the driver failed.
    """
    limits = build_limits(plan.config, name)
    runtime = RuntimeFolder(plan.config.daemon)
    _look_for_a_service(runtime, plan, name)
    runtime.create()
    lock = InstanceLock(runtime.lock(f"actuate@{name}"))
    owner = lock.take()
    if owner is not None:
        raise NotNeutral(
            f"process {owner} has the actuator and answers for neutral: `reflexd estop {name}` stops it; "
            f"if it does not answer, kill -9 {owner} first"
        )
    try:
        world = plan.config.actuators[name].world
        if world is not None:
            return f"nothing to write: world {world} falls back to neutral by itself"
        with Bus(runtime) as bus:
            return _write(make_driver(plan, runtime, name, bus), limits.neutral)
    finally:
        lock.release()


def _look_for_a_service(runtime: RuntimeFolder, plan: Plan, name: str) -> None:
    """The one that may move the same actuator from another runtime folder."""
    folder = SERVICES_RUNTIME / plan.config.daemon.name
    owner = owner_of(lock_in(folder, f"actuate@{name}"))
    if owner is not None and folder != runtime.folder:
        raise NotNeutral(
            f"process {owner} has the actuator, as a service: `systemctl stop reflexd-actuate@{name}` ends it neutral"
        )


def _write(driver: Driver, neutral: Setting) -> str:
    writer = Writer(driver)
    try:
        driver.open()
        if not any(writer.write("stop", neutral) for _ in range(STOP_TRIES)) or writer.lost:
            raise NotNeutral(f"{writer.trouble}: look at the actuator")
    except DriverError as error:
        raise NotNeutral(f"driver: {error}: look at the actuator") from None
    finally:
        writer.close()
    return f"{neutral} written" + (f"; {writer.trouble}" if writer.trouble else "")
