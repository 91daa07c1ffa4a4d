"""Kept runs are listed and shown, and the list reads the ends of files only."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from sureenough.drivers import run_log
from sureenough.server.kept_runs import PART_SECONDS, KeptRuns
from sureenough.server.responses import ApiError
from sureenough.server.settings import ServerLimits, ServerSettings
from tests.in_thread import until
from tests.server.sending import post
from tests.server.serving import ours
from tests.server.upstream import KEY, Upstream, before

HEAD = '{"schema":2,"run":{"question":"q","strategy":"sc"}}'
END = '{"at":1.5,"result":{"answer":"7","started":2,"reason":"budget","tokens":{"total":9}}}'


def test_a_kept_run_has_the_lines_of_the_feed(upstream: Upstream, tmp_path: Path) -> None:
    settings = ServerSettings(upstream=upstream.url, upstream_key=KEY, keep_runs=tmp_path)
    with ours(settings) as (url, _):
        name = post(url, "/api/runs").json()["id"]
        live = []
        with httpx.stream("GET", f"{url}/api/runs/{name}/events") as reply:
            for line in filter(None, reply.iter_lines()):
                live.append(line.removeprefix("data: "))
                if '"result"' in line:
                    break
        until(lambda: bool(list(tmp_path.glob("*.jsonl"))))
        text = httpx.get(f"{url}/api/runs/{name}/paths/1").content
    file = (tmp_path / f"{name}.jsonl").read_text().splitlines()
    assert [line for line in file if not line.startswith('{"text"')] == live
    assert f'{{"text":{text.decode()}}}' in file
    with ours(settings) as (url, _):  # another server: nothing is in memory
        kept = httpx.get(f"{url}/api/runs/{name}/events").text
        assert kept == "".join(f"data: {line}\n\n" for line in live)
        assert httpx.get(f"{url}/api/runs/{name}/paths/1").content == text
        assert httpx.get(f"{url}/api/runs/{name}/paths/9").status_code == 404


def test_whether_two_runs_agree_is_judged_by_meaning(tmp_path: Path) -> None:
    answers = {"half": "1/2", "decimal": "0.5", "other": "3", "silent": None, "evil": "{(" * 5_000}
    for name, answer in answers.items():
        end = END.replace('"7"', json.dumps(answer))
        (tmp_path / f"{name}.jsonl").write_text(f"{HEAD}\n{end}\n")
    (tmp_path / "cut.jsonl").write_text(f"{HEAD}\n{END[:20]}")
    with ours(ServerSettings(keep_runs=tmp_path, view_only=True)) as (url, _):
        replies = {name: httpx.get(f"{url}/api/runs/half/agrees-with/{name}").json() for name in (*answers, "cut")}
        agree = {name: reply["agree"] for name, reply in replies.items()}
        assert agree == {"half": True, "decimal": True, "other": False, "silent": None, "evil": False, "cut": None}
        assert httpx.get(f"{url}/api/runs/half/agrees-with/gone").status_code == 404


def test_the_list_of_runs_reads_the_ends_of_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = "x" * 10_000_000
    (tmp_path / "large.jsonl").write_text(f"{HEAD}\n{damaged}\n{END}\n")
    (tmp_path / "cut.jsonl").write_text(f"{HEAD}\n{END[:20]}")
    monkeypatch.setattr(run_log, "read_log", lambda file: pytest.fail("the whole file is read"))
    runs = {run["id"]: run for run in KeptRuns(tmp_path).listed()}
    assert (runs["large"]["answer"], runs["large"]["started"], runs["large"]["tokens"]) == ("7", 2, 9)
    assert (runs["cut"]["answer"], runs["cut"]["error"]) == (None, "The log ends before the run does.")


def test_the_list_is_small_however_long_questions_and_answers_are(tmp_path: Path) -> None:
    head, end = HEAD.replace('"q"', f'"{"q" * 1_000_000}"'), END.replace('"7"', f'"{"7" * 1_000_000}"')
    (tmp_path / "long.jsonl").write_text(f"{head}\n{end}\n")
    (run,) = KeptRuns(tmp_path).listed()
    assert (len(run["question"]), len(run["answer"])) == (200, 200)


def test_only_regular_files_are_shown_and_a_failed_save_leaves_none(tmp_path: Path) -> None:
    kept = KeptRuns(tmp_path)
    for name in ("pipe.jsonl", "pipe.html"):
        os.mkfifo(tmp_path / name)
    assert (kept.listed(), kept.reports()) == ([], [])
    for read in (kept.find, kept.report):
        with pytest.raises(ApiError, match="does not exist"):
            read("pipe" if read == kept.find else "pipe.html")
    broken = SimpleNamespace(with_texts=lambda: (1 / 0 for _ in range(2)))
    with pytest.raises(ZeroDivisionError):
        kept.save("broken", broken)  # type: ignore[arg-type]
    for age, name in ((0, "new"), (2 * PART_SECONDS, "old")):  # of servers that were killed
        part = tmp_path / f".{name}.jsonl.sureenough-part"
        part.touch()
        os.utime(part, (time.time() - age,) * 2)
    kept.remove_parts()
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == [".new.jsonl.sureenough-part"]


def test_runs_that_ended_and_are_watched_have_a_limit(upstream: Upstream) -> None:
    with before(upstream, limits=ServerLimits(requests=2)) as (url, state):
        names = []
        for _ in range(4):
            names.append(post(url, "/api/runs").json()["id"])
            until(lambda: state.requests == 0)
        assert list(state.watched) == names[-2:]
        assert httpx.get(f"{url}/api/runs/{names[0]}/events").status_code == 404


def test_a_page_cannot_start_runs_on_one_of_several_replicas(upstream: Upstream) -> None:
    with before(upstream, replica="a") as (url, _):
        reply = post(url, "/api/runs")
        assert (reply.status_code, reply.json()["error"]["code"]) == (501, "replicated")
        assert post(url).status_code == 200
        assert httpx.get(f"{url}/api/options").json()["refusal"] == reply.json()["error"]["message"]


@pytest.mark.parametrize("replica", ["", "a"])
def test_metrics_of_a_replica_name_it(upstream: Upstream, replica: str) -> None:
    with before(upstream, replica=replica) as (url, _):
        httpx.get(f"{url}/healthz")
        lines = [line for line in httpx.get(f"{url}/metrics").text.splitlines() if not line.startswith("#")]
    named = [line for line in lines if 'replica="a"' in line]
    assert named == (lines if replica else [])
    assert any(line.startswith("sureenough_requests_total{") for line in lines)
