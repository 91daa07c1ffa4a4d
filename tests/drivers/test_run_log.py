"""The run log: its lines add up to the same view however often they are written, and files of it survive damage."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

import sureenough as se
from sureenough.core.events import Summary
from sureenough.drivers.run_log import (
    INCOMPLETE,
    LINE_BYTES,
    LogLine,
    RunLogWriter,
    RunView,
    read_ends,
    read_log,
    save_log,
)
from sureenough.engines import Fake
from sureenough.engines.base import End, Report
from sureenough.engines.fake import Step
from sureenough.errors import EngineRejected, TraceError

HEAD = b'{"schema":2,"run":{"question":"q"}}'


def falling_every_third(seed: int) -> Iterator[Step]:
    """Paths with known answers, whose confidence falls in every third one."""
    last = seed % 3
    for token in range(24):
        yield [se.Token(f"{token} ", 0.9, 9.0 - last * token / 8)]
    yield [se.Token(rf"\boxed{{{('0.5', '1/2', '3')[last]}}}", 0.9, 9.0)]


def run(
    strategy: str = "ddc:warmup=4",
    interval: float = 0.0,
    script: Callable[[int], Iterable[Step]] = falling_every_third,
    **options: Any,
) -> tuple[RunLogWriter, se.Outcome]:
    """The log of a run, which adds up to what its writer has, and the outcome."""
    log = RunLogWriter({"question": "?", "strategy": strategy}, interval=interval)
    given = {"paths": 12, "parallel": 4, "window": 8} | options
    out = se.ask("?", Fake(script), strategy, observers=[log], **given)
    log.end(out)
    assert state(folded(log.lines)) == state(log.view)
    return log, out


def folded(lines: Iterator[bytes] | list[bytes]) -> RunView:
    view = RunView()
    for line in lines:
        view.apply(json.loads(line))
    return view


def state(view: RunView) -> Any:
    parts = (view.run, sorted(view.paths.items()), view.steps, view.summary, view.result)
    return json.loads(json.dumps(parts))


@pytest.mark.parametrize("strategy", ["ddc:warmup=4", "sure", "sc", "esc"])
def test_the_lines_add_up_to_the_outcome(strategy: str) -> None:
    log, out = run(strategy)
    view = folded(log.lines)
    votes = {view.answer(path): weight for path, weight in view.summary["votes"]}
    assert votes == pytest.approx(out.votes)
    assert list(votes) == list(out.votes)
    assert (view.summary["started"], view.summary["counted"]) == (out.started, out.counted)
    assert (view.summary["tokens"], view.summary["measure"]) == (out.tokens.total, out.verdict.measure)
    fates = [path["fate"] for path in view.paths.values()]
    assert (len(fates), fates.count("pruned"), None in fates) == (out.started, out.pruned, False)
    assert view.steps[-1][0] == out.counted
    assert view.result == json.loads(json.dumps(out.to_json()))
    assert list(view.phases)[-1] == "stopped"


def test_lines_that_are_written_rarely_add_up_to_the_same() -> None:
    often, rarely = run("ac"), run("ac", interval=inf)
    assert len(often[0].lines) > 10 > len(rarely[0].lines)
    assert [json.loads(line)["summary"]["phase"] for line in rarely[0].lines[1:3]] == ["sampling", "stopped"]
    for name in ("votes", "counted", "stop", "measure", "why"):
        assert often[0].view.summary[name] == rarely[0].view.summary[name]


@pytest.mark.parametrize("strategy", ["ddc:warmup=4", "sure"])
def test_paths_are_redrawn_when_the_window_is_chosen(strategy: str) -> None:
    """The points of early paths had the stride of the smallest window."""

    falling = [[se.Token(f"{token} ", 0.9, 9.0 - token / 100)] for token in range(300)]
    log, out = run(strategy, script=lambda _: [*falling, [se.Token(r"\boxed{7}", 0.9, 9.0)]], window=None)
    view = log.view
    assert (view.summary["window"], view.summary["stride"]) == (out.window, out.window // 8) == (64, 8)
    assert {len(path["points"]) for path in view.paths.values() if path["fate"] == "kept"} == {301 // 8}


def test_paths_that_their_engine_watches_are_drawn_by_what_it_reports() -> None:
    reports = Report(32, tail=8.0), Report(32, tail=6.0), Report(10, tail=float("nan"))
    end = End(text=r"\boxed{7}", unread=1, summary=Summary(75, 5.0, 5.5, mean_peak=0.9, mean_conf=7.0))
    view = run("sure", script=lambda _: [*reports, end], paths=4, window=64)[0].view
    assert view.summary["stride"] == 8
    assert view.paths[0]["points"] == [8.0, 8.0, 8.0, 8.0, 7.5, 7.0, 6.5, 6.0]
    assert (view.paths[0]["confidence"], view.paths[0]["tokens"]) == (6.0, 75)


def test_any_reported_confidence_gives_a_log_that_can_be_read(tmp_path: Path) -> None:
    reports = [Report(16, tail=tail) for tail in (-1.7e308, 1.7e308, float("inf"), 9.0)]
    end = End(text=r"\boxed{7}", summary=Summary(64, 5.0, 5.5, mean_peak=0.9, mean_conf=7.0))
    save_log(tmp_path / "log", run("sure", script=lambda _: [*reports, end], paths=1, window=64)[0].lines)
    assert folded([raw for raw, _ in read_log(tmp_path / "log")]).paths[0]["points"] == [9.0] * 8


def test_votes_name_answers_by_their_lowest_path() -> None:
    view = run("sc")[0].view
    for path in view.paths.values():
        same = [other["path"] for other in view.paths.values() if other["vote"] == path["vote"]]
        assert path["vote"] == min(same)
    assert len(view.summary["votes"]) == len({path["vote"] for path in view.paths.values()}) <= 2, "0.5 is 1/2"


def test_seconds_of_the_warm_up_and_of_the_rest() -> None:
    view = RunView()
    for at, phase in ((0.5, "warm-up"), (2.0, "warm-up"), (3.0, "sampling"), (7.5, "stopped"), (8.0, "stopped")):
        view.apply({"at": at, "summary": {"phase": phase}})
    assert view.seconds() == (2.5, 4.5)
    view.phases = {"sampling": 1.0, "stopped": 3.0}
    assert view.seconds() == (0.0, 2.0)
    view.phases = {"warm-up": 1.0, "stopped": 3.0}
    assert view.seconds() == (2.0, 0.0), "the warm-up settled it"


def test_a_saved_log_has_texts_and_is_private(tmp_path: Path) -> None:
    log, out = run()
    save_log(tmp_path / "run.jsonl", log.with_texts())
    assert stat.S_IMODE((tmp_path / "run.jsonl").stat().st_mode) == 0o600
    lines = list(read_log(tmp_path / "run.jsonl"))
    assert [raw for raw, line in lines if "text" not in line] == log.lines
    texts = {line["text"]["path"]: line["text"] for _, line in lines if "text" in line}
    assert set(texts) == {number for number, path in log.view.paths.items() if path["tokens"]}
    assert "".join(texts[0]["texts"][:3]) == "0 1 2 "
    assert len(texts[0]["confidence"]) == len(texts[0]["texts"]) == 25
    head, end = read_ends(tmp_path / "run.jsonl")
    assert (head["run"]["question"], end["result"]["answer"]) == ("?", out.answer)


def test_an_error_is_an_end(tmp_path: Path) -> None:
    log = RunLogWriter({"question": "?"})
    with pytest.raises(EngineRejected) as raised:
        se.ask("?", Fake(lambda seed: [EngineRejected("no such model")]), "sc", paths=2, observers=[log])
    log.end(None, {"message": str(raised.value)})
    save_log(tmp_path / "run.jsonl", log.with_texts())
    assert "no such model" in read_ends(tmp_path / "run.jsonl")[1]["error"]["message"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], INCOMPLETE),
        ([b'{"at":1.0,"summary":{"tokens":5}}'], INCOMPLETE),
        ([b'{"at":1.0,"summary":{"tok'], "Line 2 of the log is damaged; the run is shown up to it."),
        ([b'{"summary":{}}', b'{"paths":[{"path":-1}]}'], "Line 3 of the log is damaged; the run is shown up to it."),
        ([b'{"paths":[{"path":1,"fate":"lost"}]}'], "Line 2 of the log is damaged; the run is shown up to it."),
        ([b"\xff\xfe"], "Line 2 of the log is damaged; the run is shown up to it."),
        ([b'{"error":' + b"[" * 100_000], "Line 2 of the log is damaged; the run is shown up to it."),
        ([b'{"error":{"message":"' + b"x" * LINE_BYTES], "Line 2 of the log is damaged; the run is shown up to it."),
    ],
)  # fmt: skip
def test_a_damaged_log_is_shown_up_to_the_damage(tmp_path: Path, lines: list[bytes], message: str) -> None:
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"\n".join([HEAD, *lines]))
    *_, (_, last) = read_log(file)
    assert last == {"error": {"message": message}}
    assert read_ends(file)[1] == {"error": {"message": INCOMPLETE}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not a run log"),
        (b"{}", "is not a run log"),
        (b"null", "is not a run log"),
        (b"\x00" * 100, "is not a run log"),
        (b'{"schema":2}', "is not a run log"),
        (b'{"schema":3,"run":{}}', "has schema 3; this version reads 2"),
        (b'{"schema":2,"run":{"question":5}}', "is not a run log"),
    ],
)
def test_what_is_not_a_log_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "run.jsonl").write_bytes(content)
    for read in (read_ends, lambda file: list(read_log(file))):
        with pytest.raises(TraceError, match=says):
            read(tmp_path / "run.jsonl")
    with pytest.raises(TraceError, match="cannot be read"):
        read_ends(tmp_path)


def test_readers_receive_every_line() -> None:
    received: list[LogLine] = []
    log = RunLogWriter({"question": "?"}, lambda line, view: received.append(line), interval=0.0)
    log.end(se.ask("?", Fake(falling_every_third), "sc", paths=2, window=8, observers=[log]))
    assert [json.loads(line) for line in log.lines] == json.loads(json.dumps(received))
