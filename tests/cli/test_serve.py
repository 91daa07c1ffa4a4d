"""`serve` and `view` on the command line: what they refuse, and that they serve."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import httpx
import pytest

from tests.processes import start, sureenough

RUN = {"schema": 1, "run": {"id": "x", "question": "3 + 4?", "model": "m", "strategy": "sc", "begun": 1.0},
       "over": {"answer": "7"}, "words": {"0": {"path": 0, "words": ["7"], "conf": []}}}  # fmt: skip


def refused(*words: str) -> str:
    """The error message of a command that must fail."""
    done = sureenough(*words)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serve", "--host", "0.0.0.0"], "--insecure"),
        (["serve", "--url", "nonsense"], "is not a URL"),
        (["serve", "--upstream", "nonsense"], "is not a URL"),
        (["serve", "--upstream", "http://127.0.0.1:9/v1", "-s", "ddd"], "did you mean"),
        (["serve", "--key-file", "nowhere"], "cannot be read"),
        (["serve", "--host", "192.0.2.1", "--insecure"], "give --host an address of this machine"),
        (["serve", "--host", "no host", "--insecure"], "give --host an address of this machine"),
        (["serve", "--max-paths", "0"], "max-paths"),
        (["serve", "--model", "nowhere.gguf"], "nowhere.gguf"),
        (
            ["serve", "--keep-runs", "pyproject.toml/runs"],
            "runs cannot be kept in pyproject.toml/runs",
        ),
        (["serve", "--state", "pyproject.toml"], "cannot be kept in pyproject.toml: it is a file; name a folder"),
        (["serve", "--temperature", "0", "--url", "nonsense"], "all paths will be equal"),
        (["serve", "--temperature", "-1"], "temperature is -1.0"),
        (["serve", "--template", "solve it"], "{question}"),
        (["serve", "--max-seconds", "inf"], "and finite"),
        (["serve", "--grace", "inf"], "grace is inf"),
        (["serve", "--upstream", "http://127.0.0.1:99999/v1"], "ports go from 1 to 65535"),
        (["view", "nowhere.json"], "does not exist"),
        (["view", "-q", "nothing"], "the package has no question 'nothing'"),
        (["view", "-q", "1", "pyproject.toml"], "--question is for pools"),
        (["view", "pyproject.toml"], "is not a run log"),
    ],
)
def test_bad_options_are_refused_with_a_message(words: list[str], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREENOUGH_PORT", "0")  # the default one may be taken
    assert says in refused(*words)


def test_an_unknown_log_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREENOUGH_LOG", "verbose")
    monkeypatch.setenv("SUREENOUGH_PORT", "0")
    assert "SUREENOUGH_LOG is VERBOSE" in refused("serve", "--upstream", "http://127.0.0.1:9/v1")


def test_a_run_file_with_a_name_that_is_not_a_run_id(tmp_path: Path) -> None:
    (tmp_path / "my run.v2.json").write_text(json.dumps(RUN))
    assert "rename it, to run-1.jsonl" in refused("view", str(tmp_path / "my run.v2.json"))


def test_serve_says_at_the_start_that_the_upstream_is_not_there() -> None:
    with start("serve", "--url", "http://127.0.0.1:9/v1", "--port", "0") as server:
        try:
            warning = next(line for line in server.stderr if "upstream" in line)
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=20)
    assert "the upstream is not ready" in warning
    assert "http://127.0.0.1:9/v1" in warning


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refused("serve", "--upstream", "http://127.0.0.1:9/v1", "--port", str(taken.getsockname()[1]))
    assert "try another --port" in said


def test_view_shows_a_recorded_question() -> None:
    with start("view", "-s", "ddc:warmup=8,weight=mean,drop=1", "--no-browser") as server:
        try:
            line = server.stdout.readline()
            url, _, name = line.split("the page is ")[1].strip().rpartition("/runs/")
            events = httpx.get(f"{url}/api/runs/{name}/events").text
            path = httpx.get(f"{url}/api/runs/{name}/paths/1").json()
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=20)
    assert "showing arith-5-3-1 of problems.parquet" in line
    assert '"question":"Solve 76(51x+929)+124x+6756=3875x+104735 for x."' in events
    assert '"answer":"219"' in events
    assert '"fate":"pruned"' in events
    assert "".join(path["texts"]).rstrip().endswith("\\boxed{219}.")
    assert len(path["texts"]) == len(path["confidence"]) == 389


def test_view_shows_a_run(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(RUN))
    (tmp_path / "main.html").write_text("<p>report")
    (tmp_path / "bench" / "report").mkdir(parents=True)
    (tmp_path / "bench" / "report" / "report.html").write_text("<p>report")
    with start("view", tmp_path / "mine.json", "--no-browser") as server:
        try:
            page = server.stdout.readline().split("the page is ")[1].strip()
            url = page.removesuffix("/runs/mine")
            assert "sureenough" in httpx.get(page).text
            assert '"question":"3 + 4?"' in httpx.get(f"{url}/api/runs/mine/events").text
            assert httpx.get(f"{url}/api/runs/mine/paths/0").json()["texts"] == ["7"]
            assert [one["id"] for one in httpx.get(f"{url}/api/runs").json()["runs"]] == ["mine"]
            assert httpx.get(f"{url}/api/runs").json()["reports"] == ["bench/report/report.html", "main.html"]
            for name in ("bench/report/report.html", "main.html"):
                assert "sandbox" in httpx.get(f"{url}/reports/{name}").headers["content-security-policy"]
            assert httpx.get(f"{url}/reports/../mine.json").status_code == 404
            assert httpx.get(f"{url}/reports/..%2f..%2fetc/hosts").status_code == 404
            assert httpx.get(f"{url}/v1/models").json()["data"] == []
            reply = httpx.post(f"{url}/v1/chat/completions", json={"model": "m@sc", "messages": []})
            assert reply.status_code == 503
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=20)
    assert server.returncode == 0
