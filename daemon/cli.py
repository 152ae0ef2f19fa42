"""The command line ``reflexd``. Each command imports only what it needs: an emergency stop must not wait for numpy."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config import ConfigError, parse
from daemon.messages import Operation
from daemon.runtime import RuntimeFolderError, runtime_root

if TYPE_CHECKING:
    from daemon.plan import Plan
    from daemon.workers import Worker

OPERATIONS: dict[Operation, str] = {
    "estop": "stop: neutral at once, latched until cleared, also over restarts and power cuts",
    "clear": "release the emergency stop; the actuator stays disarmed",
    "arm": "let agents move the actuator",
    "disarm": "neutral; agents may not move the actuator",
    "status": "say what the valve does",
}


def main(argv: list[str] | None = None) -> int:
    """Run ``reflexd``; return its exit status.

    0 done; 1 not done, or not by all; 71 (EX_OSERR) a runtime folder that cannot be had; 78 (EX_CONFIG) a
    configuration or option that must be changed first. argparse leaves with 2.
    """
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.call(arguments))
    except ConfigError as error:
        return _complain(str(error), os.EX_CONFIG)
    except RuntimeFolderError as error:
        return _complain(str(error), os.EX_OSERR)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _run(arguments: argparse.Namespace) -> int:
    from daemon.plan import load
    from daemon.run import Options, run

    live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not arguments.plain
    return run(load(arguments.config), Options(seconds=arguments.seconds, json=arguments.json, live=live))


def _check(arguments: argparse.Namespace) -> int:
    from daemon.plan import load
    from daemon.workers import choose_worker

    plan = load(arguments.config)
    worker = choose_worker(plan.config.infer.worker)
    print(worker.line)
    p99_ms = _verify(plan, worker)
    complaints = _admission(plan, p99_ms)
    refused = len(p99_ms) < len(plan.config.agents)
    for complaint in complaints:
        _complain(complaint, 1)
    return 1 if refused or (complaints and plan.config.infer.admission == "refuse") else 0


def _verify(plan: Plan, worker: Worker) -> dict[str, float]:
    """Check every package once; return the p99 forward time in ms of each agent whose package may act."""
    from daemon.infer.verify import Verdict, verify_in_process

    threads = plan.config.infer.threads
    verdicts: dict[Path, Verdict] = {}
    p99_ms = {}
    for name in plan.config.agents:
        package = plan.package(name)
        if package not in verdicts:
            verdicts[package] = verify_in_process(worker, package, threads)
        verdict = verdicts[package]
        if verdict.ok:
            p99_ms[name] = verdict.p99_ms
            numbers = f"forward p50 {verdict.p50_ms:.2f} ms, p99 {verdict.p99_ms:.2f} ms, {threads} threads"
            print(f"agent {name}: package ok: {package}: {numbers}")
        else:
            print(f"agent {name}: package refused: {package}: {verdict.detail}")
    return p99_ms


def _admission(plan: Plan, p99_ms: dict[str, float]) -> list[str]:
    """Print the worst case of each agent; return what speaks against them together."""
    from daemon.infer.admission import admit, response_ms

    for name in p99_ms:
        worst, allowed = response_ms(plan.config, p99_ms, name), plan.config.agents[name].effective_deadline_ms
        print(f"agent {name}: frame to action takes {worst:.1f} ms at worst, {allowed:.1f} ms allowed")
    return admit(plan.config, p99_ms)


def _export(arguments: argparse.Namespace) -> int:
    try:
        from daemon.export import ExportError, export_package
    except ModuleNotFoundError as error:
        return _complain(f"export needs {error.name}: pip install 'reflexd[export]' on the host", 1)
    from daemon.infer.runtime_log import captured

    chatter: list[str] = []  # torch and the runtime warn about themselves; it matters only when the export fails
    try:
        with captured(chatter):
            report = export_package(arguments.model_folder, arguments.out)
    except ExportError as error:
        return _complain("\n".join([*chatter, str(error)]), 1)
    print("\n".join(report.lines()))
    return 0


def _operate(arguments: argparse.Namespace) -> int:
    from daemon.operate import operate, targets

    folders = _folders(arguments)
    found = targets(folders)
    chosen = [target for target in found if not arguments.actuators or target.actuator in arguments.actuators]
    unknown = set(arguments.actuators) - {target.actuator for target in found}
    answers = operate(chosen, arguments.operation)
    for answer in answers:
        verb = arguments.operation if answer.done else f"NOT CONFIRMED {arguments.operation}"
        print(f"{answer.target.name}: {verb}: {answer.text}", file=sys.stdout if answer.done else sys.stderr)
    for actuator in sorted(unknown):
        names = ", ".join(target.name for target in found) or "none"
        _complain(f"{actuator}: no such actuator is running; running: {names}", 1)
    if not found:
        where = ", ".join(map(str, folders)) or f"{runtime_root()} (a daemon elsewhere needs --config or --runtime)"
        return _complain(f"{arguments.operation}: no running actuator found in {where}", 1)
    return 0 if not unknown and all(answer.done for answer in answers) else 1


def _neutral(arguments: argparse.Namespace) -> int:
    from daemon.actuate.neutral import NotNeutral, write_neutral
    from daemon.plan import load_without_packages

    plan = load_without_packages(arguments.config)
    status = 0
    for name in arguments.actuators or plan.config.actuators:
        try:
            print(f"{name}: {write_neutral(plan, name)}")
        except (NotNeutral, ConfigError, OSError) as error:  # the others still get theirs
            status = _complain(f"{name}: NOT neutral: {error}", 1)
    return status


def _sources(_: argparse.Namespace) -> int:
    from daemon.capture.listing import report

    print("\n".join(report()))
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    import shutil

    from daemon.doctor.examine import as_json, examine, failed, page
    from daemon.doctor.machine import Machine
    from daemon.doctor.setup import read_setup

    findings = examine(Machine(), read_setup(arguments.config))
    width = shutil.get_terminal_size((110, 24)).columns
    print(as_json(findings) if arguments.json else page(findings, max(width, 60)))
    return 1 if failed(findings) else 0


def _snapshot(arguments: argparse.Namespace) -> int:
    from daemon.snapshot import SnapshotError, snapshot

    try:
        print(snapshot(_folders(arguments), arguments.source, arguments.agent, arguments.out))
    except SnapshotError as error:
        return _complain(str(error), 1)
    return 0


def _folders(arguments: argparse.Namespace) -> list[Path]:
    """Runtime folders of the daemon that is meant, or of all that run."""
    from daemon.operate import folder_of, running_daemons

    if arguments.config is not None:
        return [folder_of(parse(arguments.config).daemon)]
    return [arguments.runtime] if arguments.runtime is not None else running_daemons()


def _version() -> str:
    from daemon.versions import versions
    from daemon.workers import worker_kinds

    found = versions()
    kinds = [f"{kind} worker: {state}" for kind, state in worker_kinds().items()]
    return "\n".join([*(f"{name} {version}" for name, version in found.items()), *kinds])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="reflexd", description="Learned policies acting on a small Linux device.")
    parser.add_argument("--version", action=_PrintVersion, help="versions of everything that matters, and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a configuration in the foreground")
    run.add_argument("config", type=Path, metavar="CONFIG", help="a TOML file; docs/configuration.md has its keys")
    run.add_argument("--for", dest="seconds", type=_seconds, metavar="SECONDS", help="end after this long")
    run.add_argument("--json", type=Path, metavar="FILE", help="write a report there at the end")
    run.add_argument("--plain", action="store_true", help="log lines to stderr, also on a terminal")
    run.set_defaults(call=_run)

    check = commands.add_parser("check", help="check a configuration and its model packages without acting")
    check.add_argument("config", type=Path, metavar="CONFIG", help="a TOML file")
    check.set_defaults(call=_check)

    export = commands.add_parser("export", help="make a package from a PyTorch policy (on the host)")
    export.add_argument("model_folder", type=Path, metavar="MODEL_FOLDER", help="has model.toml; takes about a minute")
    export.add_argument("--out", type=Path, metavar="DIR", help="the package; by default MODEL_FOLDER/package")
    export.set_defaults(call=_export)

    neutral = commands.add_parser("neutral", help="write neutral for actuators whose process is gone")
    neutral.add_argument("config", type=Path, metavar="CONFIG", help="a TOML file")
    neutral.add_argument("actuators", nargs="*", metavar="ACTUATOR", help="only these; otherwise all")
    neutral.set_defaults(call=_neutral)

    sources = commands.add_parser("sources", help="list cameras and their formats, and what is missing")
    sources.set_defaults(call=_sources)

    doctor = commands.add_parser("doctor", help="say what this machine has and lacks for reflexd, and what to do")
    doctor.add_argument("config", type=Path, nargs="?", metavar="CONFIG", help="by default that of the services")
    doctor.add_argument("--json", action="store_true", help="for programs")
    doctor.set_defaults(call=_doctor)

    picture = commands.add_parser("snapshot", help="save what a model sees of a running source as a PNG")
    picture.add_argument("source", metavar="SOURCE", help="a source or world of a running daemon")
    picture.add_argument("--as", dest="agent", metavar="AGENT", help="as this agent sees it: cropped, fitted, coloured")
    picture.add_argument("-o", dest="out", type=Path, metavar="FILE", help="by default SOURCE.png or SOURCE-AGENT.png")
    _which_daemon(picture)
    picture.set_defaults(call=_snapshot)

    for operation, text in OPERATIONS.items():
        one = commands.add_parser(operation, help=text, description=text)
        one.add_argument("actuators", nargs="*", metavar="ACTUATOR", help="only these; otherwise all")
        _which_daemon(one)
        one.set_defaults(call=_operate, operation=operation)
    return parser


def _which_daemon(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    where.add_argument("--config", type=Path, help="of the daemon meant; otherwise all that run")
    where.add_argument("--runtime", type=Path, metavar="DIR", help="runtime folder of the daemon meant")


class _PrintVersion(argparse.Action):
    """Like argparse's own, but looks the versions up only when asked."""

    def __init__(self, option_strings: list[str], dest: str, help: str | None = None) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print and leave."""
        print(_version())
        parser.exit()


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text}: expected a number of seconds above 0")
    return value


def _complain(text: str, status: int) -> int:
    print(f"reflexd: {text}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
