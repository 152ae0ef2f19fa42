"""The command line ``reflexctl``. Each command imports only what it needs: a stop must not wait for the rest."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from daemon.allowlist import AllowListError
from daemon.config import DEFAULT_PORT, ConfigError
from daemon.ctl.devices import Device, DeviceError, read_devices, write_devices
from daemon.ctl.streams import seconds
from daemon.messages import Operation
from daemon.remote import (
    LEVELS,
    MAX_RECORDS,
    ROLES,
    Activate,
    Anything,
    ChangeAgent,
    CheckConfig,
    ListModels,
    Picture,
    Propose,
    RemoveModel,
    Rollback,
    Status,
    Valve,
)

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

EXITS = (
    "0 done; 1 refused, unknown, or not by all; 2 usage; 69 nobody answers; 77 not let in, or not allowed; "
    "78 a file or name that must be changed first"
)


def main(argv: list[str] | None = None) -> int:
    """Run ``reflexctl``; return its exit status."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.call(arguments))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes once more at its end, and would say so
        return 1
    except OSError as error:
        from daemon.ctl.ask import exit_status

        return _complain(str(error), exit_status(error))
    except (ConfigError, DeviceError, AllowListError, msgspec.ValidationError) as error:
        return _complain(str(error), os.EX_CONFIG)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _ask(arguments: argparse.Namespace) -> int:
    from daemon.ctl.ask import ask

    request: Anything = arguments.request(arguments)
    return ask(arguments, request)


def _proposal(arguments: argparse.Namespace) -> Propose:
    try:
        return Propose(manual=arguments.manual, values=[float(word) for word in arguments.what])
    except ValueError:
        return msgspec.convert(
            {"type": "Propose", "manual": arguments.manual, "action": " ".join(arguments.what)}, Propose
        )


def _snapshot(arguments: argparse.Namespace) -> int:
    from daemon.ctl.ask import save_picture

    return save_picture(arguments, Picture(source=arguments.source, agent=arguments.agent or ""))


def _push(arguments: argparse.Namespace) -> int:
    from daemon.ctl.ask import push

    return push(arguments)


def _stream(arguments: argparse.Namespace) -> int:
    from daemon.ctl import streams

    return streams.logs(arguments) if arguments.stream == "log" else streams.telemetry(arguments)


def _top(arguments: argparse.Namespace) -> int:
    from daemon.ctl.top import top

    return top(arguments)


def _keys(arguments: argparse.Namespace) -> int:
    from daemon.ctl import keys

    work = {"new": keys.new, "show": keys.show, "trust": keys.trust, "revoke": keys.revoke, "list": keys.listing}
    return work[arguments.what](arguments)


def _add_device(arguments: argparse.Namespace) -> int:
    address = {"host": arguments.address, "port": arguments.device_port}
    given = {**address, "server": arguments.public, "key": arguments.key or ""}
    write_devices({**read_devices(), arguments.name: msgspec.convert(given, Device)})
    return 0


def _list_devices(_: argparse.Namespace) -> int:
    for name, device in sorted(read_devices().items()):
        print(f"{name}\t{device.host}:{device.port}\t{device.server}\t{device.key or 'the default key'}")
    return 0


def _remove_device(arguments: argparse.Namespace) -> int:
    devices = read_devices()
    if devices.pop(arguments.name, None) is None:
        raise DeviceError(f"{arguments.name}: no such device; devices: {', '.join(sorted(devices)) or 'none'}")
    write_devices(devices)
    return 0


_JSON = "replies and records as JSON, one a line"


class _Command(argparse.ArgumentParser):
    """A command; it takes ``--json`` too."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=_JSON)


def parser() -> argparse.ArgumentParser:
    """All commands and options."""
    parser = argparse.ArgumentParser(
        prog="reflexctl", description="Commands, models and logs of reflexd devices.", epilog=f"Exit status: {EXITS}."
    )
    _where(parser)
    parser.add_argument("--json", action="store_true", help=_JSON)
    commands: Commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    _add_asks(commands)
    _add_agents(commands)
    _add_models(commands)
    _add_streams(commands)
    _add_keys(commands)
    _add_devices(commands)
    return parser


def _where(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--device", metavar="NAME", help="a device with a name; otherwise the daemon on this machine")
    where.add_argument("--all", action="store_true", help="every device with a name, at the same time")
    where.add_argument("--runtime", type=Path, metavar="DIR", help="runtime folder of a daemon on this machine")
    where.add_argument("--host", help="a device without a name")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="with --host")
    parser.add_argument("--server-key", metavar="KEY", help="with --host: the device's public key")
    parser.add_argument("--key", metavar="FILE", help="this client's key pair; by default ~/.config/reflexd/client.key")


def _add_asks(commands: Commands) -> None:
    status = commands.add_parser("status", help="how every process is doing")
    status.set_defaults(call=_ask, request=lambda _: Status())
    for operation in get_args(Operation):
        if operation == "status":
            continue
        one = commands.add_parser(operation, help=f"{operation} actuators, by default all")
        one.add_argument("actuators", nargs="*", metavar="ACTUATOR")
        one.set_defaults(
            call=_ask, request=lambda found, order=operation: Valve(operation=order, actuators=found.actuators)
        )
    propose = commands.add_parser("propose", help="an action by hand, of a table [manual.NAME]; in force for a moment")
    propose.add_argument("manual", metavar="NAME")
    propose.add_argument(
        "what", nargs="+", metavar="ACTION|VALUE", help="an action's name, or a value for each channel"
    )
    propose.set_defaults(call=_ask, request=_proposal)
    valves = commands.add_parser("valves", help="what the actuators' valves do")
    valves.set_defaults(call=_ask, request=lambda _: Valve(operation="status"))
    check = commands.add_parser("check", help="check the device's configuration file as it is now")
    check.set_defaults(call=_ask, request=lambda _: CheckConfig())
    picture = commands.add_parser("snapshot", help="save what a model sees as a PNG; needs to be trusted with frames")
    picture.add_argument("source", metavar="SOURCE")
    picture.add_argument("--as", dest="agent", metavar="AGENT", help="as this agent sees it")
    picture.add_argument("-o", dest="out", type=Path, metavar="FILE", help="by default SOURCE.png")
    picture.set_defaults(call=_snapshot)


def _add_agents(commands: Commands) -> None:
    group = commands.add_parser("agents", help="list, pause, resume, prioritise, pace agents; their models")
    agents: Commands = group.add_subparsers(required=True, metavar="WHAT")
    listing = agents.add_parser("list", help="state, priority, rate and model of each")
    listing.set_defaults(call=_ask, request=lambda _: ChangeAgent(agent="", change="status"))
    for change, text in (("pause", "no decision until resume"), ("resume", "decide again")):
        one = agents.add_parser(change, help=text)
        one.add_argument("agent", metavar="AGENT")
        one.set_defaults(call=_ask, request=lambda found, change=change: ChangeAgent(agent=found.agent, change=change))
    for change, text in (("priority", "0 to 9, 9 the most urgent"), ("rate", "decisions a second")):
        one = agents.add_parser(change, help=text)
        one.add_argument("agent", metavar="AGENT")
        one.add_argument("value", type=float, metavar="VALUE")
        one.set_defaults(
            call=_ask,
            request=lambda found, change=change: ChangeAgent(agent=found.agent, change=change, value=found.value),
        )


def _add_models(commands: Commands) -> None:
    group = commands.add_parser("models", help="list, push, activate, roll back, remove model packages")
    models: Commands = group.add_subparsers(required=True, metavar="WHAT")
    models.add_parser("list", help="packages that can be activated").set_defaults(
        call=_ask, request=lambda _: ListModels()
    )
    push = models.add_parser("push", help="send a package to the device, where it is checked")
    push.add_argument("folder", type=Path, metavar="FOLDER")
    push.add_argument("package", metavar="NAME", help="its name there")
    push.set_defaults(call=_push)
    activate = models.add_parser("activate", help="have an agent act by a package; on trial first")
    activate.add_argument("agent", metavar="AGENT")
    activate.add_argument("package", metavar="NAME", nargs="?", default="", help="by default the configured one")
    activate.set_defaults(call=_ask, request=lambda found: Activate(agent=found.agent, package=found.package))
    back = models.add_parser("rollback", help="back to the model before")
    back.add_argument("agent", metavar="AGENT")
    back.set_defaults(call=_ask, request=lambda found: Rollback(agent=found.agent))
    remove = models.add_parser("remove", help="remove a package that no agent acts by")
    remove.add_argument("package", metavar="NAME")
    remove.set_defaults(call=_ask, request=lambda found: RemoveModel(package=found.package))


def _add_streams(commands: Commands) -> None:
    logs = commands.add_parser("logs", help="records of the log")
    logs.add_argument("--agent", metavar="AGENT", help="of this agent")
    logs.add_argument("--process", metavar="PROCESS", help="of this process, as infer or capture@cam")
    logs.add_argument("--level", default="info", choices=[level.lower() for level in LEVELS], help="at least")
    logs.add_argument("--since", type=seconds, default=0.0, metavar="TIME", help="not older than 90s, 10m, 2h, 1d")
    logs.add_argument("--grep", metavar="TEXT", help="with this text in it")
    telemetry = commands.add_parser("telemetry", help="what actuators do and processes say")
    for one, stream in ((logs, "log"), (telemetry, "telemetry")):
        one.add_argument("-f", dest="follow", action="store_true", help="go on as records come; gaps are named")
        one.add_argument("-n", dest="number", type=_number, default=200, metavar="N", help="records, 1000 at most")
        one.set_defaults(call=_stream, stream=stream)
    top = commands.add_parser("top", help="the device at a glance, live")
    top.add_argument("--once", action="store_true", help="print it once; so does a pipe")
    top.set_defaults(call=_top)


def _add_keys(commands: Commands) -> None:
    group = commands.add_parser("keys", help="this client's key pair, and whom a device trusts")
    keys: Commands = group.add_subparsers(required=True, metavar="WHAT")
    texts = {
        "new": "make this client's key pair",
        "show": "print the public keys of this client and of the device that this is",
        "trust": "on a device: let a client in, or change what it may",
        "revoke": "on a device: trust a client no more",
        "list": "on a device: who is trusted with what",
    }
    for what, text in texts.items():
        one = keys.add_parser(what, help=text)
        one.add_argument("--config", metavar="CONFIG", help="of the daemon meant; by default that of the service")
        one.set_defaults(call=_keys, what=what)
        if what in ("trust", "revoke"):
            one.add_argument("name", metavar="NAME")
        if what == "trust":
            one.add_argument("public", metavar="KEY", help="the client's public key, in quotes")
            one.add_argument("--role", choices=ROLES, default="observe", help="by default observe")
            one.add_argument("--frames", action="store_true", help="it may see what the cameras see")


def _add_devices(commands: Commands) -> None:
    group = commands.add_parser("devices", help="devices with a name")
    devices: Commands = group.add_subparsers(required=True, metavar="WHAT")
    add = devices.add_parser("add", help="name a device")
    add.add_argument("name", metavar="NAME")
    add.add_argument("address", metavar="HOST")
    add.add_argument("public", metavar="KEY", help="the device's public key, in quotes")
    add.add_argument("device_port", metavar="PORT", type=int, nargs="?", default=DEFAULT_PORT)
    add.set_defaults(call=_add_device)
    devices.add_parser("list", help="print them").set_defaults(call=_list_devices)
    remove = devices.add_parser("remove", help="forget one")
    remove.add_argument("name", metavar="NAME")
    remove.set_defaults(call=_remove_device)


def _number(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if not 1 <= value <= MAX_RECORDS:
        raise argparse.ArgumentTypeError(f"{text}: expected 1 to {MAX_RECORDS}")
    return value


def _complain(text: str, status: int) -> int:
    print(f"reflexctl: {text}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
