"""What the displays of a live run call the fates of its paths."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from sureenough.cli.live_display import drawn, plain_lines
from sureenough.core.events import Ended, Fate
from sureenough.core.outcome import Outcome
from sureenough.drivers.run_log import LineReader, LogLine, RunLogWriter, RunView
from sureenough.strategies import STRATEGIES
from tests.core.making import ended, session


def run(*events: Ended, readers: tuple[LineReader, ...]) -> Outcome:
    """A run that these events settle; paths are counted in the order in which they were started."""
    voting = session(STRATEGIES["ac"], parallel=8)
    log = RunLogWriter({"question": "?"}, *readers, interval=0.0)
    for event in events:
        log(event, voting.receive(event), voting.snapshot())
    log.end(voting.outcome())
    return voting.outcome()


EVENTS = (
    ended(6, "b"), ended(7, None), ended(1), ended(0), ended(2, None, Fate.FAILED), ended(3), ended(4),
)  # fmt: skip
"""The vote is settled before paths 6 and 7, which ended first, have their turn; path 5 is still running then."""


def test_a_path_that_was_not_counted_is_not_called_kept() -> None:
    lines: list[str] = []
    out = run(*EVENTS, readers=(plain_lines(lines.append),))
    assert sorted(lines) == [
        "path 0: kept, 0 tokens, answer a",
        "path 1: kept, 0 tokens, answer a",
        "path 2: failed, 0 tokens",
        "path 3: kept, 0 tokens, answer a",
        "path 4: kept, 0 tokens, answer a",
        "path 6: ended, not counted, 0 tokens, answer b",
        "path 7: ended, not counted, 0 tokens, no answer",
    ]
    assert (out.reason, out.counted, out.started, out.ended_uncounted) == ("settled", 5, 8, 2)
    assert "counted; 3 more had been started, and 2 of them had ended without being counted." in out.explain()


def test_a_terminal_draws_the_same_fates() -> None:
    frames: list[str] = []

    def draw(line: LogLine, view: RunView) -> None:
        if view.summary:
            text = StringIO()
            Console(file=text, width=100).print(drawn(view, 40))
            frames.append(text.getvalue())

    run(*EVENTS, readers=(draw,))
    first, *_, last = frames
    assert ("ended" in first, "kept" in first, "not counted" in first) == (True, False, False)
    assert [last.count(fate) for fate in ("kept", "ended, not counted", "discarded")] == [4, 2, 1]
