"""`serve` and `view` on the command line: what they refuse, and that they serve."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from sureenough.api import replay
from sureenough.cli import app
from sureenough.cli.view import run_on_recorded
from sureenough.data import BUILTIN_POOL
from sureenough.pools import Pool, Question, RecordedPath
from sureenough.server import ServerLimits, ServerSettings
from tests.bench.making import make_pool
from tests.processes import begun, configured, refused

RUN = """{"schema": 2, "run": {"id": "x", "question": "3 + 4?", "model": "m", "strategy": "sc", "begun": 1.0}}
{"text": {"path": 0, "texts": ["7"], "confidence": []}}
{"result": {"answer": "7"}}
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serve", "--host", "0.0.0.0"], "--insecure"),
        (["serve", "--url", "nonsense"], "is not a URL"),
        (["serve", "--url", "http://127.0.0.1:9/v1", "-s", "ddd"], "did you mean"),
        (["serve", "--key-file", "nowhere"], "cannot be read"),
        (["serve", "--host", "192.0.2.1", "--insecure"], "give --host an address of this machine"),
        (["serve", "--host", "no host", "--insecure"], "give --host an address of this machine"),
        (["serve", "--model", "nowhere.gguf"], "nowhere.gguf"),
        (["serve", "--keep-runs", "pyproject.toml/runs"], "runs cannot be kept in pyproject.toml/runs"),
        (["serve", "--state", "pyproject.toml"], "cannot be kept in pyproject.toml: File exists; name another folder"),
        (["serve", "--temperature", "0", "--url", "nonsense"], "all paths will be equal"),
        (["serve", "--temperature", "-1"], "temperature is -1.0"),
        (["serve", "--template", "solve it"], "{question}"),
        (["serve", "--url", "http://127.0.0.1:99999/v1"], "ports go from 1 to 65535"),
        (["view", "nowhere.json"], "does not exist"),
        (["view", "-q", "nothing"], "the package has no question 'nothing'"),
        (["view", "-q", "1", "pyproject.toml"], "--question is for pools"),
        (["view", "pyproject.toml"], "is not a run log"),
    ],
)
def test_bad_options_are_refused_with_a_message(words: list[str], says: str) -> None:
    ports = ["--port", "0"] if words[0] == "serve" else []  # the default one may be taken
    assert says in refused(*words, *ports)


LIMITS = {"paths": 300, "parallel": 17, "tokens": 9, "path_tokens": 8, "seconds": 7.5, "body": 6, "requests": 5,
          "send": 4.0, "head": 3.0, "idle": 2, "grace": 1.5, "plain": False}  # fmt: skip


def test_every_limit_of_the_file_reaches_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What each does is tested in tests/server."""
    text = "".join(f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in LIMITS.items())
    for name, value in configured(tmp_path, f"[serve]\nlog-level = 'warning'\n[serve.limits]\n{text}").items():
        monkeypatch.setenv(name, value)
    served: list[ServerSettings] = []
    monkeypatch.setattr("sureenough.cli.serve.serve", lambda settings, *_: served.append(settings))
    done = CliRunner().invoke(app, ["serve"])
    assert done.exit_code == 0, done.output
    assert (asdict(served[0].limits), served[0].log_level) == (LIMITS, "warning")
    assert not [name for name, value in asdict(ServerLimits()).items() if value == LIMITS[name]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[serve.limits]\npaths = 0", "paths is 0; a limit must be above 0, and finite"),
        ("[serve.limits]\nseconds = inf", "seconds is inf; a limit must be above 0, and finite"),
        ("[serve.limits]\nmax-paths = 9", "'max-paths' is not a limit (did you mean 'paths'?); known: paths, parallel"),
        ("[serve.limits]\npath-tokens = '9'", "path_tokens is '9'; it must be a whole number"),
        ("[serve.limits]\nidle = 1.5", "idle is 1.5; it must be a whole number"),
        ("[serve.limits]\ngrace = true", "grace is True; it must be a number"),
        ("[serve.limits]\nplain = 1", "plain is 1; it must be true or false"),
        ("[serve.limits]\npaths = 9", "requests use --paths 64 by default, which is above this server's limit of 9"),
        ("[serve]\nlimits = 3", "sureenough.toml: limits must be a table"),
        ("[serve]\nlog-level = 'verbose'", "log_level is 'verbose'; it must be one of DEBUG, INFO"),
        ("[serve]\nlimit = 3", "serve has no option 'limit' (did you mean 'limits'?); known: allow-host"),
    ],
)
def test_bad_settings_of_the_file_are_refused_by_name(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "sureenough.toml").write_text(text)
    assert says in refused("serve", "--port", "0", cwd=tmp_path)


def test_a_run_file_with_a_name_that_is_not_a_run_id(tmp_path: Path) -> None:
    (tmp_path / "my run.v2.jsonl").write_text(RUN)
    assert "rename it, to run-1.jsonl" in refused("view", str(tmp_path / "my run.v2.jsonl"))


def test_serve_says_at_the_start_that_the_upstream_is_not_there() -> None:
    with begun("serve", "--url", "http://127.0.0.1:9/v1", "--port", "0") as server:
        warning = next(line for line in server.stderr if "upstream" in line)
    assert "the upstream is not ready" in warning
    assert "http://127.0.0.1:9/v1" in warning


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refused("serve", "--url", "http://127.0.0.1:9/v1", "--port", str(taken.getsockname()[1]))
    assert "try another --port" in said


def test_view_shows_a_recorded_question() -> None:
    with begun("view", "-s", "ddc:warmup=8,weight=mean,drop=1", "--no-browser") as server:
        line = server.stdout.readline()
        url, _, name = line.split("the page is ")[1].strip().rpartition("/runs/")
        events = httpx.get(f"{url}/api/runs/{name}/events").text
        path = httpx.get(f"{url}/api/runs/{name}/paths/1").json()
    assert "showing arith-5-3-1 of problems.parquet" in line
    assert '"question":"Solve 76(51x+929)+124x+6756=3875x+104735 for x."' in events
    assert '"answer":"219"' in events
    assert '"fate":"pruned"' in events
    assert "".join(path["texts"]).rstrip().endswith("\\boxed{219}.")
    assert len(path["texts"]) == len(path["confidence"]) == 389


def test_view_shows_a_run(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(RUN)
    (tmp_path / "main.html").write_text("<p>report")
    (tmp_path / "bench" / "report").mkdir(parents=True)
    (tmp_path / "bench" / "report" / "report.html").write_text("<p>report")
    with begun("view", tmp_path / "mine.jsonl", "--no-browser") as server:
        page = server.stdout.readline().split("the page is ")[1].strip()
        url = page.removesuffix("/runs/mine")
        assert "sureenough" in httpx.get(page).text
        assert '"question": "3 + 4?"' in httpx.get(f"{url}/api/runs/mine/events").text
        assert httpx.get(f"{url}/api/runs/mine/paths/0").json()["texts"] == ["7"]
        assert [one["id"] for one in httpx.get(f"{url}/api/runs").json()["runs"]] == ["mine"]
        assert httpx.get(f"{url}/api/runs").json()["reports"] == ["bench/report/report.html", "main.html"]
        for name in ("bench/report/report.html", "main.html"):
            assert "sandbox" in httpx.get(f"{url}/reports/{name}").headers["content-security-policy"]
        assert httpx.get(f"{url}/reports/../mine.jsonl").status_code == 404
        assert httpx.get(f"{url}/reports/..%2f..%2fetc/hosts").status_code == 404
        assert httpx.get(f"{url}/v1/models").json()["data"] == []
        reply = httpx.post(f"{url}/v1/chat/completions", json={"model": "m@sc", "messages": []})
        assert reply.status_code == 503


@pytest.mark.parametrize("strategy", ["sc", "ddc:warmup=8", "ac"])
def test_it_shows_what_a_replay_decides(strategy: str, tmp_path: Path) -> None:
    make_pool(tmp_path, questions=1)
    pool = Pool(tmp_path / "small.parquet")
    (question,) = pool
    log = run_on_recorded(pool, question, strategy)
    out = replay(question.paths, strategy, window=8)
    assert log.view.result is not None
    assert log.view.result["answer"] == out.answer
    assert log.view.result["tokens"] == out.to_json()["tokens"]
    kept = [path for path in log.view.paths.values() if path["fate"] == "kept" and path["answer"]]
    assert kept
    whole = [path for path in kept if path["tokens"] == question.paths[path["path"]].tokens]
    for path in whole:
        assert "".join((log.text(path["path"]) or {"texts": []})["texts"]) == f"\\boxed{{{path['answer']}}}"


def test_it_shows_paths_without_signals() -> None:
    paths = [
        RecordedPath(answer, tokens=tokens) for answer, tokens in [("7", 9), ("8", 0), ("7", 4), ("7", 5), ("7", 6)]
    ]
    question = Question("q1", "7", None, paths)
    log = run_on_recorded(Pool(BUILTIN_POOL), question, "sure")
    out = replay(paths, "sure")
    assert log.view.result is not None
    assert (log.view.result["answer"], log.view.result["tokens"]) == (out.answer, out.to_json()["tokens"])
    assert [path["tokens"] for path in log.view.paths.values()] == [path.tokens for path in paths[: out.started]]


def test_what_recorded_paths_cannot_show_is_refused(tmp_path: Path) -> None:
    make_pool(tmp_path, questions=1)
    pool = str(tmp_path / "small.parquet")
    assert "run it live" in refused("view", pool, "-s", "mur+sc")
