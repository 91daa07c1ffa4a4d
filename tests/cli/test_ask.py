"""`sureenough ask` as a user types it: a real process against a real socket, its output and its exit codes."""

from __future__ import annotations

import errno
import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sureenough as se
from sureenough.cli import app
from sureenough.cli.ask import _question
from sureenough.errors import UsageError
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread
from tests.processes import CLEAN, configured, refused, start, sureenough

Serve = Callable[..., str]


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """Starts servers that behave as the keywords say; all are stopped at the end."""
    with ExitStack() as running:
        yield lambda **manner: running.enter_context(in_thread(serving(Manner(**manner)))).url


@pytest.fixture(scope="module")
def url(serve: Serve) -> str:
    return serve(tokens=40, answer="7")


def ask(
    *words: str, given: str = "", cwd: Path | None = None, env: Mapping[str, str] = CLEAN
) -> subprocess.CompletedProcess[str]:
    return sureenough("ask", *words, given=given, cwd=cwd, env={"NO_COLOR": "1", **env})


@pytest.mark.parametrize(
    ("answers", "strategy", "said"),
    [
        ("aaaa", "sure", "a, 3 of 3 votes (100%, settled); 15 tokens, 64 paths would take about 320"),
        ("abcdefghijklmnop" * 4, "sure", "(9%, weak); more paths would hardly help; 165 tokens, "),
        ("ab", "sc", "a, 1 of 2 votes (50%, weak); the budget was spent; 10 tokens"),
        ("aab", "sc", "a, 2 of 3 votes (67%); the budget was spent; 15 tokens"),
        ("-", "sc", "no answer; the budget was spent; 5 tokens"),
    ],
)
def test_a_run_in_one_line(answers: str, strategy: str, said: str) -> None:
    paths = [se.RecordedPath(None if one == "-" else one, [0.5] * 5, [5.0] * 5) for one in answers]
    paths *= 64 // len(answers) if strategy == "sure" else 1
    assert said in se.replay(paths, strategy, window=4).brief()


def test_prompts_of_searches_are_paid_for(url: str, serve: Serve, tmp_path: Path) -> None:
    words = ("3 + 4?", "--url", url, "--model", "tiny", "-s", "predictive+sc:rollouts=2", "--paths", "2")
    out = json.loads(ask(*words, "--json", env=CLEAN | configured(tmp_path, "price-in = 1\n")).stdout)
    prompts = out["tokens"]["reread"], out["tokens"]["prompt"]
    assert all(prompts)
    assert out["cost"] == pytest.approx(sum(prompts) / 1e6)
    assert re.search(r"Prompts of searches: [1-9]\d\d tokens, not included either\.", ask(*words, "-v").stderr)
    cached = ask(*[word.replace(url, serve(tokens=20, cached=8)) for word in words], "-v").stderr
    assert re.search(r"Prompts of searches: \d+ tokens, 64 of them cached, not included either\.", cached)
    assert re.search(r"Of \d+ prompt tokens the server had 96 cached\.", cached)


def test_plain_lines_in_a_pipe(url: str, tmp_path: Path) -> None:
    prices = configured(tmp_path, "price-in = 1\nprice-out = 2\n")
    words = ("3 + 4?", "--url", url, "--model", "tiny", "-s", "ddc", "--window", "8")
    done = ask(*words, env=CLEAN | prices)
    assert (done.returncode, done.stdout) == (0, "7\n")
    lines = done.stderr.splitlines()
    assert sum(line.endswith("kept, 43 tokens, answer 7") for line in lines) >= 16
    assert lines[-1] == "7, 16 of 16 votes (100%, settled); 688 tokens, 64 paths would take about 2,800, cost 0.001520"
    assert "\x1b" not in done.stderr
    details = ask(*words, "-v", env=CLEAN | prices).stderr.splitlines()
    assert "Answer: 7 (ddc, 16 of 64 paths)." in details
    assert "Prompt: 144 tokens in all requests of paths, not included in the tokens above." in details
    assert details[-1] == lines[-1]


@pytest.mark.parametrize(("flags", "hurry"), [([], 0.6), (["--hurry", "1"], 1.0), (["--hurry", "inf"], None)])
def test_sure_and_planned_width_are_the_defaults(url: str, flags: list[str], hurry: float | None) -> None:
    result = json.loads(ask("?", "--url", url, "--model", "tiny", "--json", *flags).stdout)
    assert (result["strategy"], result["answer"]) == ("sure", "7")
    assert (result["hurry"], result["window"], result["window_paths"]) == (hurry, 16, 3)
    assert (result["started"] < 16) is (hurry is not None)
    assert "discarded" in result["tokens"]


def test_a_question_that_no_path_answers_says_why(serve: Serve) -> None:
    done = ask("?", "--url", serve(answer=""), "--model", "tiny", "-s", "sc")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Note: none of" in done.stderr
    assert "\nno answer; no path gave an answer; " in done.stderr


def test_quiet_prints_only_the_answer_and_no_warning(url: str, serve: Serve) -> None:
    done = ask("3 + 4?", "--url", url, "--model", "tiny", "-s", "sc", "-n", "2", "--quiet", "--temperature", "0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
    none = ask("?", "--url", serve(answer=""), "--model", "tiny", "-s", "sc", "-n", "2", "-q")
    assert (none.returncode, none.stdout, none.stderr) == (1, "", "")
    loud = ask("3 + 4?", "--url", url, "--model", "tiny", "-s", "sc", "-n", "2", "--temperature", "0")
    assert loud.stderr.startswith("Warning: with --temperature 0 all paths will be equal")


def test_json_and_the_text_of_the_answer(url: str) -> None:
    done = ask("-", "--url", url, "--model", "tiny", "--json", "-s", "ac", "--parallel", "1", given="3 + 4?")
    result = json.loads(done.stdout)
    assert (result["answer"], result["reason"], result["started"]) == ("7", "settled", 4)
    assert result["text"].endswith("\\boxed{7}")
    assert (result["tokens"]["total"], result["cost"]) == (172, None)
    shown = ask("?", "--url", url, "--model", "tiny", "-s", "ac", "-v").stderr
    assert "--- path 0\n" in shown


def test_the_log_of_a_run(url: str, serve: Serve, tmp_path: Path) -> None:
    words = ("--model", "tiny", "-s", "sc", "-n", "2", "--log", str(tmp_path / "run.jsonl"))
    assert ask("3 + 4?", "--url", url, *words).returncode == 0
    head, *_, last = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert (head["schema"], head["run"]["question"], head["run"]["model"]) == (2, "3 + 4?", "tiny")
    assert (last["result"]["answer"], last["result"]["started"]) == ("7", 2)
    assert ask("?", "--url", serve(status=404), *words).returncode == 3
    assert "error" in json.loads((tmp_path / "run.jsonl").read_text().splitlines()[-1]), "an error is logged, too"
    refused = ask("?", "--url", url, *words[:-1], str(tmp_path / "none" / "run.jsonl"))
    assert (refused.returncode, "cannot write" in refused.stderr) == (2, True)


def test_a_log_that_cannot_be_written_costs_neither_tokens_nor_the_answer(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--url", url, "--model", "tiny", "-s", "sc", "-n", "2", "--log")
    for place in (tmp_path, "/proc/run.jsonl"):
        refused = ask("?", *words, str(place))
        assert (refused.returncode, refused.stdout) == (2, ""), place
        assert "is not a place for a log; name a file" in refused.stderr
        assert "path 0" not in refused.stderr, "nothing was sampled"

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sureenough.cli.ask.save_log", full)
    done = CliRunner().invoke(app, ["ask", "?", *words, str(tmp_path / "run.jsonl")])
    assert (done.exit_code, done.stdout) == (0, "7\n")
    assert "Warning: the log could not be written to" in done.stderr


def test_defaults_from_a_file(url: str, tmp_path: Path) -> None:
    (tmp_path / "sureenough.toml").write_text(f'url = "{url}"\nmodel = "tiny"\n[ask]\nstrategy = "ac"\npaths = 9\n')
    result = json.loads(ask("--json", given="3 + 4?", cwd=tmp_path).stdout)
    assert (result["strategy"], result["paths"]) == ("ac", 9)
    done = ask("?", "--json", "-s", "sc", "--paths", "3", cwd=tmp_path)
    assert (json.loads(done.stdout)["strategy"], json.loads(done.stdout)["paths"]) == ("sc", 3)
    text = f'url = "{url}"\nmodel = "tiny"\n[ask]\njson = true\nprice-in = 2\nmax-path-tokens = 50\n'
    (tmp_path / "sureenough.toml").write_text(text)  # the names that are typed
    assert json.loads(ask("?", "-s", "sc", "--paths", "2", cwd=tmp_path).stdout)["cost"] == 2 * 18 / 1e6


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("speed = 9", "no verb has an option 'speed' (did you mean 'seed'?); tables are named ask, "),
        ("max-token = 9", "no verb has an option 'max-token' (did you mean 'max-tokens'?)"),
        ("[serv]\nport = 9", "no verb has an option 'serv' (did you mean 'serve'?)"),
        ("[ask]\nspeed = 9", "ask has no option 'speed' (did you mean 'seed'?); known: completions, context, deadline"),
        ("= 3", "sureenough.toml cannot be used"),
        ("ask = 3", "sureenough.toml: ask must be a table: [ask]"),
        ("paths = true", "sureenough.toml: paths must be one text or number"),
        ("[ask]\njson = 3", "sureenough.toml: json must be true or false"),
        ("[ask]\nstrategy = ['sc', 'ac']", "sureenough.toml: strategy must be one text or number"),
        ("[ask]\nmodel = {name = 'm'}", "sureenough.toml: model must be one text or number"),
        ("[ask]\npaths = 'many'", "unable to parse string as an integer (in sureenough.toml)"),
        ("threads = 0", "Invalid value for 'threads': "),
        ("context = true", "sureenough.toml: context must be one text or number"),
        ("completions = 1", "sureenough.toml: completions must be true or false"),
        ("price-in = -1", "Invalid value for 'price-in': "),
        ("price-out = inf", "Invalid value for 'price-out': "),
        ("url = 'http://h/v1'\nmodel = 'm'\nstall = 0", "stall is 0.0 seconds"),
        ("url = 'http://h/v1'\nmodel = 'm'\nthreads = 2", "context and threads in sureenough.toml are for models on"),
    ],
)
def test_bad_defaults(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "sureenough.toml").write_text(text)
    assert says in refused("ask", "?", cwd=tmp_path, env=CLEAN)


@pytest.mark.parametrize(
    ("words", "given", "says"),
    [
        (["?", "--model", "nope"], "", "nope is not a file: a server's model needs --url"),
        (["?", "--model", "built-in@ddc"], "", "a strategy is not a model: give --model built-in"),
        (["?", "--url", "http://h/v1", "--model", "m@sure:delta=0"], "", "verbs that vote take -s sure:delta=0"),
        (["?", "--url", "localhost", "--model", "m"], "", "it looks like http://localhost:8000/v1"),
        (["--url", "http://h/v1", "--model", "m"], " ", "the question is empty"),
        # before a model is loaded
        (["?", "-s", "dcc"], "", "sureenough: unknown strategy 'dcc' (did you mean 'ddc'?)"),
        (["?", "--url", "http://h/v1", "--model", "m", "--kind", "essay"], "", "known: math, choice"),
        (["caf\udce9?", "--url", "http://h/v1", "--model", "m"], "", "the question is not text in UTF-8: convert it"),
        (["?", "--url", "http://127.0.0.1:70000/v1", "--model", "m"], "", "ports go from 1 to 65535"),
    ],
)
def test_usage_is_exit_code_2(words: list[str], given: str, says: str) -> None:
    done = ask(*words, given=given)
    assert done.returncode == 2, done
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_missing_model_does_not_print_the_password() -> None:
    done = ask("?", "--url", "http://user:hunter2@127.0.0.1:9/v1?token=abc#def")
    assert done.returncode == 2
    assert "no model is named for http://127.0.0.1:9/v1: give --model NAME" in done.stderr
    assert not any(secret in done.stderr + done.stdout for secret in ("hunter2", "user", "abc", "def;"))


def test_standard_input_in_another_encoding_under_a_strict_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9?"), encoding="utf-8", errors="strict"))
    with pytest.raises(UsageError, match="the question is not text in UTF-8: convert it"):
        _question("-")


def test_without_standard_input() -> None:
    command = f'"{sys.executable}" -m sureenough ask --url http://h/v1 --model m <&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False, env=CLEAN)
    assert (done.returncode, "the question is missing" in done.stderr) == (2, True)


def test_the_engine_is_exit_code_3(serve: Serve) -> None:
    done = ask("?", "--url", serve(logprobs=False), "--model", "tiny")
    assert done.returncode == 3
    assert "--max-logprobs 20" in done.stderr
    assert ask("?", "--url", serve(logprobs=False), "--model", "tiny", "-s", "sc", "--paths", "2").returncode == 0


def test_ctrl_c_takes_the_vote_so_far(serve: Serve) -> None:
    words = ["?", "--url", serve(tokens=30, delay=0.01, answer="7"), "--model", "tiny", "-s", "sc", "--parallel", "1"]
    with start("ask", *words, env=CLEAN) as running:
        assert running.stderr.readline().startswith("path 0: kept")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (0, "7\n")
    assert "; the run was interrupted; " in err


def test_the_built_in_model_of_a_server_has_its_note(url: str) -> None:
    """A server of `sureenough serve` cannot pass it on with the tokens of its paths."""
    note = "Note: answered by the built-in model, which knows school arithmetic only."
    words = ("What is 3 + 4?", "--url", url, "-s", "sc", "--paths", "2")
    assert note in ask(*words, "--model", "built-in").stderr.splitlines()
    again = url.replace("127.0.0.1", "localhost")
    assert ask(*words, "--model", "built-in", "--url", again).stderr.count("school arithmetic") == 1
    assert "built-in" not in ask(*words, "--model", "tiny").stderr


def test_on_a_terminal_it_draws(url: str) -> None:
    terminal = {"FORCE_COLOR": "1", "COLUMNS": "120", "LINES": "40"}
    done = ask("?", "--url", url, "--model", "tiny", "-s", "ddc", "--window", "8", env=CLEAN | terminal)
    assert done.returncode == 0, done.stderr
    assert "confidence" in done.stderr
    posteriors = "posterior by the paper's weights 1.0000 (1.0000 with every path one vote), stops above 0.95"
    assert posteriors in done.stderr
    assert "saved" not in done.stderr
    narrow = ask("?", "--url", url, "--model", "tiny", "-v", env=CLEAN | terminal | {"COLUMNS": "50"}).stderr
    assert max(map(len, narrow.split("Answer: ")[1].splitlines())) <= 50
