"""Plug-ins: a small wheel is built and installed, and its strategy, judges, engine and dataset are used by name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from sureenough.errors import UsageError
from sureenough.spec import parse, render
from tests.processes import sureenough

MODULE = '''
from dataclasses import dataclass

import sureenough as se
from sureenough.core.stop_rules import StopRule
from sureenough.core.options import COUNT, check_options, option
from sureenough.datasets import Dataset
from sureenough.datasets.files import DatasetProblem
from sureenough.engines import Fake


@dataclass(frozen=True, slots=True)
class Ahead(StopRule):
    """Stop when the leader is this many votes ahead."""

    lead: int = option(5, "votes by which the leader must be ahead", COUNT)

    def __post_init__(self):
        check_options(self)

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


class Dying:
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
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, installed from a wheel."""
    folder = tmp_path_factory.mktemp("plugin")
    info = "ahead_plugin-1.2.dist-info"
    files = {
        "ahead_plugin.py": MODULE,
        "ahead_plugin_broken.py": "raise SystemExit('a plug-in that ends the process')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: ahead-plugin\nVersion: 1.2\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": ENTRY_POINTS,
    }
    wheel = folder / "ahead_plugin-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True, timeout=300)
    return target


def run(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    return sureenough(*words, env=os.environ | {"PYTHONPATH": path, "SUREENOUGH_CONFIG": ""})


def test_what_was_found_and_what_failed(installed: Path) -> None:
    listed = run(installed, "strategies").stdout.split("\nPlug-ins:\n")[1]
    states = dict(line.split(" (ahead-plugin 1.2) ") for line in listed.splitlines())
    fine = {"strategies: ahead", "judges: words", "engines: wine", "datasets: colours"}
    assert {name for name, state in states.items() if state == "ok"} == fine
    assert "SystemExit: a plug-in that ends the process" in states["strategies: broken"]
    assert "not a sureenough.Strategy" in states["strategies: wrong"]
    assert "built-in strategy" in states["strategies: ddc"]


def test_a_strategy_of_another_package_by_its_name_and_by_its_module(installed: Path) -> None:
    done = run(installed, "replay", "-s", "sc ahead:lead=3 ahead_plugin:ahead:lead=3", "--repeats", "1", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    rows = rows["pools"][0]["rows"] if isinstance(rows, dict) and "pools" in rows else rows
    text = json.dumps(rows)
    assert '"ahead:lead=3"' in text
    assert '"ahead_plugin:ahead:lead=3"' in text


def test_a_broken_plug_in_breaks_nothing_else(installed: Path) -> None:
    listed = run(installed, "strategies")
    assert listed.returncode == 0
    assert "ahead: stop when the leader is far ahead" in listed.stdout
    assert "broken: the plug-in broken of ahead-plugin 1.2 failed to load" in listed.stdout
    used = run(installed, "replay", "-s", "broken")
    assert (used.returncode, "Traceback" in used.stderr) == (2, False)
    assert "failed to load: SystemExit" in used.stderr


def test_engine_and_judge_of_another_package(installed: Path) -> None:
    words = ["ask", "Which?", "--engine", "wine", "--kind", "words", "-s", "sc", "-n", "6", "--json"]
    done = run(installed, *words)
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["votes"].values()) == [6.0]
    refused = run(installed, "ask", "Which?", "--engine", "beer")
    assert (refused.returncode, "known: wine" in refused.stderr) == (2, True)


def test_a_connection_that_an_engine_loses_is_not_taken_for_an_output(installed: Path) -> None:
    lost = run(installed, "ask", "Which?", "--engine", "ahead_plugin:Dying", "-s", "sc", "-n", "6")
    assert (lost.returncode, "Traceback" in lost.stderr, "cannot write" in lost.stderr) == (3, False, False)
    assert r"the engine failed: ConnectionResetError: the other side \x1b[31m is gone" in lost.stderr


@pytest.mark.parametrize("name", ["wine", "ahead_plugin:engine"])
def test_a_server_with_an_engine_of_another_package(installed: Path, name: str) -> None:
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "sureenough", "serve", "--engine", name, "--kind", "words", "--port", "0"]
    environment = os.environ | {"PYTHONPATH": path, "SUREENOUGH_CONFIG": "", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        body = {"model": f"{name}@sc", "messages": [{"role": "user", "content": "Which?"}], "sureenough": {"paths": 4}}
        try:
            url = line.split()[3].rstrip(",")
            reply = httpx.post(f"{url}/chat/completions", json=body, timeout=120).json()
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=60)
    assert f"with {name}" in line
    assert list(reply["sureenough"]["votes"].values()) == [4.0]


def test_a_server_refuses_an_engine_that_is_not_there(installed: Path) -> None:
    unknown = run(installed, "serve", "--engine", "beer")
    assert (unknown.returncode, "known: wine" in unknown.stderr) == (2, True)
    both = run(installed, "serve", "--engine", "wine", "--url", "http://localhost:1/v1")
    assert (both.returncode, "--engine cannot be combined" in both.stderr) == (2, True)


def test_record_and_replay_with_a_judge_named_by_its_module(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": "1", "question": "Which?", "gold": "wine red"}\n')
    pool = str(tmp_path / "pool.parquet")
    recorded = run(
        installed, "record", str(tmp_path / "q.jsonl"), "-o", pool, "--engine", "ahead_plugin:engine", "--kind",
        "ahead_plugin:words", "-n", "4",
    )  # fmt: skip
    assert recorded.returncode == 0, recorded.stderr
    untrusted = run(installed, "replay", pool, "-s", "sc")
    assert untrusted.returncode == 2
    assert "--kind ahead_plugin:words" in untrusted.stderr
    replayed = run(installed, "replay", pool, "-s", "sc", "--kind", "ahead_plugin:words", "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert '"accuracy": 1.0' in replayed.stdout


def test_no_plug_in_is_looked_for_without_need() -> None:
    code = "import sys; sys.argv = ['sureenough', '--version']\nfrom sureenough.cli import main\n"
    code += "try:\n    main()\nexcept SystemExit:\n    pass\nprint('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_clients_cannot_name_modules() -> None:
    with pytest.raises(UsageError, match="can only be named where a command or server is started"):
        parse("tests.test_plugins:mine", registered_only=True)


@pytest.mark.parametrize("spec", ["ddc:warmup=8", "sure"])
def test_specs_of_built_in_strategies_are_unchanged(spec: str) -> None:
    assert render(parse(spec)) == spec
