"""The display of a live run, from its log: paths and their confidence, votes, and how near the run is to stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sureenough.cli.terminal import echo, printable, terminal
from sureenough.core.stop_rules import Verdict
from sureenough.drivers.run_log import LineReader, LogLine, PathChange, RunView

BARS: Final = "▁▂▃▄▅▆▇█"
WIDTH: Final = 32
"""Bars of a path's confidence; neighbouring points are joined if there are more."""
COLOURS: Final = {"kept": "green", "pruned": "yellow", "discarded": "dim", "failed": "red", None: "white"}
NOT_COUNTED: Final = "ended, not counted"
"""The fate of a path that had ended, but was not counted, when the run ended; its tokens are in `discarded`."""


def plain_lines(write: Callable[[str], None]) -> LineReader:
    """Reads a log for pipes: one line per path, when its fate is certain."""
    written: dict[int, str] = {}  # the fates of paths

    def read(line: LogLine, view: RunView) -> None:
        for change in line.get("paths", ()):
            path = view.paths[change["path"]]
            fate = _fate(path)
            if fate in ("running", "ended", "discarded", written.get(path["path"])):
                continue
            written[path["path"]] = fate
            answer = f", answer {path['answer']}" if path["answer"] is not None else ", no answer"
            text = f"path {path['path']}: {fate}, {path['tokens']} tokens"
            write(text + answer * (fate in ("kept", NOT_COUNTED)))
        reason = line.get("result", {}).get("reason")
        if reason in ("deadline", "interrupted", "engine"):
            write(f"stopped: {reason}")

    return read


def drawn(view: RunView, height: int) -> RenderableType:
    """A run on so many lines of a terminal."""
    return Group(_paths(view, max(4, height - 10)), _votes(view), Text(_progress(view)))


def _paths(view: RunView, room: int) -> Table:
    running = [path for path in view.paths.values() if path["fate"] is None]
    ended = [path for path in view.paths.values() if path["fate"] is not None]
    shown = sorted([*ended[-max(0, room - len(running)) :], *running][-room:], key=lambda path: path["path"])
    points = [point for path in shown for point in path["points"]]
    low, high = min(points, default=0.0), max(points, default=1.0)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("path", "tokens", "confidence", "fate", "answer"):
        table.add_column(name, justify="right" if name in ("path", "tokens") else "left", no_wrap=True)
    for path in shown:
        fate = Text(_fate(path), style=COLOURS[path["fate"]])
        answer = Text(printable(path["answer"] or ""))
        table.add_row(str(path["path"]), f"{path['tokens']:,}", _bars(path, low, high), fate, answer)
    return table


def _fate(path: PathChange) -> str:
    """A path's fate in words. One that ended before its turn may never be counted, so it is not called kept yet."""
    if path.get("ended_uncounted"):
        return NOT_COUNTED
    waits = path["fate"] == "kept" and not path["counted"] and not path["warmup"]
    return "ended" if waits else path["fate"] or "running"


def _bars(path: PathChange, low: float, high: float) -> str:
    """A path's confidence, scaled from the lowest to the highest of the paths that are shown."""
    points, span = path["points"], (high - low) or 1.0
    size = -(-len(points) // WIDTH) or 1
    groups = [points[begin : begin + size] for begin in range(0, len(points), size)]
    return "".join(BARS[min(7, max(0, int(8 * (sum(group) / len(group) - low) / span)))] for group in groups)


def _votes(view: RunView) -> Table:
    votes = [(path, weight or 0.0) for path, weight in view.summary["votes"]]
    total = sum(weight for _, weight in votes) or 1.0
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in ("answer", "share", "bar"):
        table.add_column(name, no_wrap=True)
    for path, weight in votes[:5]:
        table.add_row(Text(printable(view.answer(path))), f"{weight / total:4.0%}", "█" * round(30 * weight / total))
    return table


def _progress(view: RunView) -> str:
    """How near the stop rule is to stopping, and the tokens so far beside those of the whole budget."""
    summary, stop = view.summary, view.summary["stop"]
    made, plain, budget = summary["tokens"], summary["full_budget_tokens"], summary["budget"]
    status = f"{summary['started']} of {budget} paths"
    measured = Verdict(stop["quantity"], summary["measure"], summary.get("posterior")).measured()
    if measured is not None:
        status += f"; {measured}"
        if stop["threshold"] is not None:
            status += f", stops {'above' if stop['stops_above'] else 'below'} {stop['threshold']:g}"
    if plain is None:
        return f"{status}\n{made:,} tokens"
    return f"{status}\n{made:,} tokens; {budget} paths would take about {plain:,.0f}"


@contextmanager
def display(quiet: bool, plain: bool = True) -> Iterator[tuple[LineReader, ...]]:
    """What suits standard error: a live view on a terminal, plain lines elsewhere, or nothing."""
    console = terminal(stderr=True)
    if quiet or not (plain or console.is_terminal):
        yield ()
    elif not console.is_terminal:
        yield (plain_lines(partial(echo, err=True)),)
    else:
        with Live(console=console, auto_refresh=False, transient=True) as live:

            def draw(line: LogLine, view: RunView) -> None:
                if view.summary:
                    live.update(drawn(view, console.height), refresh=True)

            yield (draw,)
