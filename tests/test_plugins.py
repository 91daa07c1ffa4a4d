"""Plug-ins: a small package is installed, and its strategy, judges, engine and dataset are used by name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx
import pytest

from sureenough.errors import UsageError
from sureenough.spec import parse
from tests.processes import begun, sureenough

MODULE = '''
from dataclasses import dataclass

import sureenough as se
from sureenough.core.stop_rules import StopRule
from sureenough.core.options import COUNT, option
from sureenough.datasets import Dataset
from sureenough.datasets.files import DatasetProblem
from sureenough.engines import Engine, Fake


@dataclass(frozen=True, slots=True)
class Ahead(StopRule):
    """Stop when the leader is this many votes ahead."""

    lead: int = option(5, "votes by which the leader must be ahead", COUNT)

    def __call__(self, poll):
        measured = self.measure(poll)
        return measured is not None and measured >= self.lead

    def measure(self, poll):
        lead = poll.lead_by_count()
        return None if lead is None else lead.first - lead.second


ahead = se.Strategy("ahead", stop=Ahead(), summary="stop when the leader is far ahead")
words = se.judge(key=lambda answer: frozenset(answer.lower().split()), ask="Answer in a few words.")


def engine():
    return Fake(lambda seed: [[se.Token("Answer: red wine" if seed % 2 else "Answer: wine RED", 0.5, 9.0)]])


class Dying(Engine):
    async def stream(self, prompt, *, seed):
        yield [se.Token("so ", 0.5, 9.0)]
        raise ConnectionResetError("the other side \\x1b[31m is gone")


problems = [DatasetProblem("1", "Which?", "red wine")]
colours = Dataset("colours", "one question", make=lambda seed: problems, kind="words")
'''
ENTRY_POINTS = """[sureenough.strategies]
ahead = ahead_plugin:ahead
broken = ahead_plugin_broken:strategy
wrong = ahead_plugin:words
ddc = ahead_plugin:ahead
[sureenough.judges]
words = ahead_plugin:words
[sureenough.engines]
wine = ahead_plugin:engine
[sureenough.datasets]
colours = ahead_plugin:colours
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With the package on the path, as an installer would leave it."""
    folder = tmp_path_factory.mktemp("plugin")
    info = folder / "ahead_plugin-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ahead-plugin\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "ahead_plugin.py").write_text(MODULE)
    (folder / "ahead_plugin_broken.py").write_text("raise SystemExit('a plug-in that ends the process')\n")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path, "SUREENOUGH_CONFIG": "", "PYTHONUNBUFFERED": "1"}


def test_what_was_found_and_what_failed_and_breaks_nothing_else(environment: dict[str, str]) -> None:
    done = sureenough("strategies", env=environment)
    assert done.returncode == 0
    strategies, listed = done.stdout.split("\nPlug-ins:\n")
    assert "ahead: stop when the leader is far ahead" in strategies
    assert "broken: the plug-in broken of ahead-plugin 1.2 failed to load" in strategies
    states = dict(line.split(" (ahead-plugin 1.2) ") for line in listed.splitlines())
    fine = {"strategies: ahead", "judges: words", "engines: wine", "datasets: colours"}
    assert {name for name, state in states.items() if state == "ok"} == fine
    assert "SystemExit: a plug-in that ends the process" in states["strategies: broken"]
    assert "not a sureenough.Strategy" in states["strategies: wrong"]
    assert "built-in strategy" in states["strategies: ddc"]
    used = sureenough("replay", "-s", "broken", env=environment)
    assert (used.returncode, "Traceback" in used.stderr) == (2, False)
    assert "failed to load: SystemExit" in used.stderr


def test_a_strategy_of_another_package_by_its_name_and_by_its_module(environment: dict[str, str]) -> None:
    done = sureenough(
        "replay", "-s", "sc ahead:lead=3 ahead_plugin:ahead:lead=3", "--repeats", "1", "--json", env=environment
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["pools"][0]["rows"]
    assert [row["strategy"] for row in rows] == ["sc", "ahead:lead=3", "ahead_plugin:ahead:lead=3"]


def test_engine_and_judge_of_another_package(environment: dict[str, str]) -> None:
    words = ["ask", "Which?", "--engine", "wine", "--kind", "words", "-s", "sc", "-n", "6", "--json"]
    done = sureenough(*words, env=environment)
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["votes"].values()) == [6.0]
    refused = sureenough("ask", "Which?", "--engine", "beer", env=environment)
    assert (refused.returncode, "known: wine" in refused.stderr) == (2, True)


def test_a_connection_that_an_engine_loses_is_not_taken_for_an_output(environment: dict[str, str]) -> None:
    lost = sureenough("ask", "Which?", "--engine", "ahead_plugin:Dying", "-s", "sc", "-n", "6", env=environment)
    assert (lost.returncode, "Traceback" in lost.stderr, "cannot write" in lost.stderr) == (3, False, False)
    assert r"the engine failed: ConnectionResetError: the other side \x1b[31m is gone" in lost.stderr


@pytest.mark.parametrize("name", ["wine", "ahead_plugin:engine"])
def test_a_server_with_an_engine_of_another_package(environment: dict[str, str], name: str) -> None:
    with begun("serve", "--engine", name, "--kind", "words", "--port", "0", env=environment) as server:
        line = server.stdout.readline()
        body = {"model": f"{name}@sc", "messages": [{"role": "user", "content": "Which?"}], "sureenough": {"paths": 4}}
        reply = httpx.post(f"{line.split()[3].rstrip(',')}/chat/completions", json=body, timeout=120).json()
    assert f"with {name}" in line
    assert list(reply["sureenough"]["votes"].values()) == [4.0]


def test_a_server_refuses_an_engine_that_is_not_there(environment: dict[str, str]) -> None:
    unknown = sureenough("serve", "--engine", "beer", env=environment)
    assert (unknown.returncode, "known: wine" in unknown.stderr) == (2, True)
    both = sureenough("serve", "--engine", "wine", "--url", "http://localhost:1/v1", env=environment)
    assert (both.returncode, "--engine cannot be combined" in both.stderr) == (2, True)


def test_record_and_replay_with_a_judge_named_by_its_module(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": "1", "question": "Which?", "gold": "wine red"}\n')
    pool = str(tmp_path / "pool.parquet")
    recorded = sureenough(
        "record", str(tmp_path / "q.jsonl"), "-o", pool, "--engine", "ahead_plugin:engine", "--kind",
        "ahead_plugin:words", "-n", "4", env=environment,
    )  # fmt: skip
    assert recorded.returncode == 0, recorded.stderr
    untrusted = sureenough("replay", pool, "-s", "sc", env=environment)
    assert untrusted.returncode == 2
    assert "--kind ahead_plugin:words" in untrusted.stderr
    replayed = sureenough("replay", pool, "-s", "sc", "--kind", "ahead_plugin:words", "--json", env=environment)
    assert replayed.returncode == 0, replayed.stderr
    assert '"accuracy": 1.0' in replayed.stdout


def test_clients_cannot_name_modules() -> None:
    with pytest.raises(UsageError, match="can only be named where a command or server is started"):
        parse("tests.test_plugins:mine", registered_only=True)
