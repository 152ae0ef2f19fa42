"""The live view of ``reflexd run``: what the agents see and do, and how the processes are."""

from __future__ import annotations

import os
from collections import deque

from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from daemon.picture import Picture
from daemon.plan import Plan
from daemon.runtime import RuntimeFolder
from daemon.statistics import Report

PICTURE_COLUMNS = 40
TABLE_COLUMNS = 50
"""What the tables need beside a picture."""
SIDE_BY_SIDE_COLUMNS = 72
"""Terminals at least this wide have pictures and tables side by side; below, pictures come last or not at all."""
LOG_LINES = 6
_FEW_ROWS, _FEW_LOG_LINES = 32, 3
"""Lower terminals show less of the log."""
_LEAST_PICTURE_ROWS = 6
_TROUBLE = ("degraded", "down", "killed", "failed")


class LiveView:
    """Draws on a terminal; a :class:`daemon.display.Screen`.

    Args:
        plan: names the sources and agents.
        runtime: where the frame rings are.
        descriptor: the terminal.
    """

    def __init__(self, plan: Plan, runtime: RuntimeFolder, descriptor: int) -> None:
        config = plan.config
        self._pictures = {
            source: Picture(runtime.ring(source, views[0]), views[0])
            for source in (*config.worlds, *config.sources)
            if (views := plan.views(source))
        }
        # A stream of its own: a thread stuck in it must not hold the lock of sys.stdout when the program ends.
        self._stream = os.fdopen(os.dup(descriptor), "w", encoding="utf-8", errors="replace")
        self._console = Console(file=self._stream, force_terminal=True)
        self._log: deque[str] = deque(maxlen=200)
        self._rates = Rates()
        self._live: Live | None = None

    def draw(self, lines: list[str], report: Report | None) -> None:
        """Draw everything anew."""
        self._log.extend(lines)
        # rich would ask stdin first, which may be another terminal or none.
        self._console.size = ConsoleDimensions(*os.get_terminal_size(self._stream.fileno()))
        if self._live is None:
            self._live = Live(
                console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        self._live.update(self._everything(report), refresh=True)

    def close(self, lines: list[str]) -> None:
        """Leave the view and print the last lines, which would be gone with it."""
        self._log.extend(lines)
        if self._live is not None:
            self._live.stop()
        for picture in self._pictures.values():
            picture.close()
        for line in list(self._log)[-2 * LOG_LINES :]:
            self._console.print(line, markup=False, highlight=False)
        self._stream.close()

    def _everything(self, report: Report | None) -> RenderableType:
        width, height = self._console.size
        tables = [agent_table(report, self._rates), process_table(report)] if report else []
        kept = LOG_LINES if height >= _FEW_ROWS else _FEW_LOG_LINES
        log = self._log_panel(width, kept)
        if width >= SIDE_BY_SIDE_COLUMNS:
            columns = min(PICTURE_COLUMNS, width - TABLE_COLUMNS)
            grid = Table.grid(padding=(0, 2))
            grid.add_column(width=columns)
            grid.add_column(width=width - columns - 3)
            grid.add_row(Group(*self._draw_pictures(columns, height - kept - 2, report)), Group(*tables))
            return Group(grid, log)
        below: list[RenderableType] = [*tables, log]
        used = len(self._console.render_lines(Group(*below), pad=False))
        return Group(*below, *self._draw_pictures(min(PICTURE_COLUMNS, width), height - used - 2, report))

    def _draw_pictures(self, columns: int, rows: int, report: Report | None) -> list[RenderableType]:
        """All pictures with their captions, if they fit into ``rows`` lines."""
        found: list[RenderableType] = []
        each = rows // max(1, len(self._pictures)) - 1
        if self._console.no_color or self._console.color_system is None:
            return found
        if each < _LEAST_PICTURE_ROWS:
            return [Text("(no room for the picture: a larger terminal shows it)", style="dim")]
        for name, picture in self._pictures.items():
            caption = f"{name} {_score(name, report)}"
            found.append(Text(caption, style="bold"))
            found.append(picture.render(columns, each) or Text("no frame yet"))
        return found

    def _log_panel(self, width: int, count: int) -> RenderableType:
        lines = list(self._log)[-count:]
        text = Text("\n".join(line[: width - 1] for line in lines), style="dim", no_wrap=True)
        return Group(Text("─" * (width - 1), style="dim"), text)


class Rates:
    """Decisions per second between the last two different reports: what an agent does now, not on average."""

    def __init__(self) -> None:
        self._before: Report | None = None
        self._latest: Report | None = None

    def take(self, report: Report) -> None:
        """Take the report to be shown."""
        if report is not self._latest:
            self._before, self._latest = self._latest, report

    def of(self, agent: str) -> float:
        """Rate of an agent, 1/s; 0 before the second report."""
        if self._before is None or self._latest is None:
            return 0.0
        seconds = self._latest["seconds"] - self._before["seconds"]
        made = self._latest["agents"][agent]["decisions"] - self._before["agents"][agent]["decisions"]
        return float(made / seconds) if seconds > 0 else 0.0


def agent_table(report: Report, rates: Rates) -> RenderableType:
    """Numbers in a row per agent; below it, in lines that may wrap, what its valve says and what was dropped."""
    rates.take(report)
    table = Table(box=None, pad_edge=False)
    table.add_column("agent", overflow="fold")
    for heading in ("now /s", "p50 ms", "p99 ms", "score"):
        table.add_column(heading, justify="right")
    lines: list[RenderableType] = []
    for name, agent in report["agents"].items():
        latency, score = agent["latency_ms"], agent["score"]
        points = "-" if score is None else f"{score:+d}"
        table.add_row(name, f"{rates.of(name):.1f}", _ms(latency["p50"]), _ms(latency["p99"]), points)
        lines.append(Text(f"{name}: {agent['valve'] or 'no word from its actuator yet'}"))
        drops = ", ".join(f"{reason} {count}" for reason, count in sorted(agent["dropped"].items()))
        lines += [Text(f"{name} dropped: {drops}", style="yellow")] if drops else []
    return Group(Text(f"{report['seconds']:.0f} s", style="bold"), table, *lines, Text())


def process_table(report: Report) -> Table:
    """A row per process."""
    table = Table(box=None, pad_edge=False)
    table.add_column("process", overflow="fold")
    table.add_column("state")
    for heading in ("MB", "CPU %", "restarts"):
        table.add_column(heading, justify="right")
    for name, process in report["processes"].items():
        style = "red" if process["state"] in _TROUBLE else ""
        cells = (name, process["state"], f"{process['rss_mb']:.0f}", f"{process['cpu_percent']:.0f}")
        table.add_row(*cells, str(process["restarts"]), style=style)
    return table


def _score(source: str, report: Report | None) -> str:
    """The points of a world, if the source is one."""
    for agent in report["agents"].values() if report else ():
        if agent["source"] == source and agent["game"] is not None:
            own, opponent = agent["game"]["points"]
            finished = ", ".join(f"{net:+d}" for net in agent["game"]["finished"][-5:])
            return f"{own}:{opponent}" + (f"  before: {finished}" if finished else "")
    return ""


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
