"""The commands and programs of the documents: every one is parsed by the program itself, or has a reason why not.

`SUREENOUGH_DOCS=1 pytest tests/test_docs_commands.py`, as in CI, also runs them, page by page, in a folder of its own.
Servers become a server of the tests, questions become two sums, and pools become small ones.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import sureenough as se
from sureenough.bench.paper import EXPERIMENTS
from sureenough.cli import app
from sureenough.data import PROBLEMS_POOL
from sureenough.drivers.observers import Transcript
from sureenough.server.consensus import RunResult
from sureenough.server.replies import consensus_details
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread
from tests.processes import sureenough

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = os.environ.get("SUREENOUGH_DOCS") == "1"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```(?=\n+(```text)?)", re.DOTALL | re.MULTILINE)
SECONDS = 240

ELSEWHERE = {
    "pip": "installs; .ci/package and .ci/run do",
    "python": "a program of this project: the file exists, .ci/run and the page's own figures use it",
    "pytest": ".ci/run runs the README's command",
    "ruff": ".ci/run",
    "mypy": ".ci/run",
    "lint-imports": ".ci/run",
    "curl": "its JSON is read here; tests/server sends such requests",
    "docker": "tests/server/test_dockerfile.py reads the Dockerfile",
    "vllm": "needs vLLM: .ci/vllm starts it with these options",
    "VLLM_PLUGINS=sureenough": "the same, with the plug-in",
    ".ci/vllm": "needs vLLM: .ci/run calls it",
    ".ci/logs": "installs Inspect: .ci/run calls it",
    "ray": "needs a cluster: .ci/ray starts one",
    "tar": "unpacks what pip has downloaded",
    "cp": "copies a file of the package, which exists",
    "printf": "input of a command that is parsed",
    ".": "activates an environment",
}
"""Commands of other programs, and what runs them."""

NOT_RUN = {
    ".eval": "needs logs of Inspect; .ci/logs makes some",
    "serve": "runs until it is stopped; tests/server starts it",
    "view": "runs until it is stopped; tests/cli starts it",
    "--ray": "needs a cluster; .ci/ray",
    "hf:": "needs the hub; tests/engines/test_local.py",
    ".gguf": "needs a file that is not in the package; tests/engines/test_local.py",
    "s3://": "needs a bucket; tests/pools",
    "--dataset": "needs the hub for its questions; tests/bench",
    "arith.jsonl": "millions of tokens",
    "arith.csv": "minutes of the built-in model; tests/cli/test_record.py",
    "demo": "tests/test_docs.py runs its recorded half, .ci/run the whole",
    "--extract": "reads a pipe; tests/cli",
    "10.0.0.3": "needs two servers; tests/engines/test_load_balancer.py",
}
"""Words of `sureenough` commands that are parsed here and not run, and why."""

LONG = {"reproducing.md": "every experiment, one after another: minutes; tests/bench runs each on a small pool"}
"""Pages whose commands are parsed and not run, and why."""

PROGRAMS = {
    "README.md": "needs serve with a model; tests/server/test_openai_client.py has such a client",
    "docs/start.md": "samples: another run prints other numbers; tests/test_ask.py",
    "docs/own-samples.md": "needs inspect_ai; .ci/logs",
    "docs/vllm.md": "needs vLLM; .ci/inprocess",
}
"""Pages with Python that is compiled and not run, and why."""


def blocks(document: Path, *languages: str) -> Iterator[tuple[str, bool]]:
    """Fenced blocks in these languages, and whether the text that they print follows."""
    for language, code, printed in FENCE.findall(document.read_text()):
        if language in languages:
            yield code, bool(printed)


def lines(block: str) -> Iterator[list[str]]:
    """The words of each command; one may continue on the next line, or have a quoted text over several."""
    text = ""
    for line in block.replace("\\\n", " ").splitlines():
        text += re.sub(r"^\w+=\$\((.*)\)$", r"\1", line)
        try:
            words = shlex.split(text, comments=True)
        except ValueError:  # a quotation is still open
            text += "\n"
            continue
        text = ""
        yield words


def commands(document: Path) -> Iterator[list[str]]:
    """Every single command of a page's shell blocks, without what it is piped or written to."""
    for block, _ in blocks(document, "sh"):
        for words in lines(block):
            command: list[str] = []
            for word in [*words, "&&"]:
                if word in ("&&", "|", ";"):
                    yield command[: next((i for i, part in enumerate(command) if part.startswith(">")), None)]
                    command = []
                else:
                    command.append(word)


def with_commands() -> list[Any]:
    return [pytest.param(page, id=page.name) for page in DOCUMENTS if any(commands(page))]


def parse(words: list[str]) -> None:
    """Let the command line's own parser read a command; it raises what it does not accept."""
    group: Any = typer.main.get_command(app)
    with group.make_context("sureenough", list(words)) as context:
        name, verb, rest = group.resolve_command(context, list(words))
        with verb.make_context(name, rest, parent=context) as parsed:
            assert parsed.params.get("experiment") in {None, *EXPERIMENTS}


@pytest.mark.parametrize("page", with_commands())
def test_every_command_is_known(page: Path) -> None:
    for words in commands(page):
        if not words:
            continue
        if words[0] == "sureenough":
            parse(words[1:])
        else:
            assert words[0] in ELSEWHERE, f"{' '.join(words)}: run it, or give the reason why not in ELSEWHERE"
        if words[0] == "python" and words[1] != "-m":
            assert (ROOT / words[1]).is_file(), words[1]
        if words[0] == "curl":
            json.loads(words[words.index("-d") + 1])


def test_python_runs_or_has_a_reason() -> None:
    reasons = set()
    for page in DOCUMENTS:
        for code, printed in blocks(page, "python", "py"):
            name = str(page.relative_to(ROOT))
            compile(code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if not printed:  # tests/test_docs.py runs those that are followed by what they print
                reasons.add(name)
    assert reasons == PROGRAMS.keys()


def test_blocks_of_other_languages_are_what_they_say() -> None:
    """`text` is what the program before it prints, see tests/test_docs.py; `console` is of a live run."""
    for page in DOCUMENTS:
        for language, code, _ in FENCE.findall(page.read_text()):
            assert language in {"sh", "python", "py", "text", "console", "toml", "json", "math"}, (page.name, language)
            if language == "toml":
                tomllib.loads(code)
            elif language == "json":
                json.loads(code)


def test_the_sample_reply_of_serving_has_the_fields_of_a_reply() -> None:
    (block,) = [code for code, _ in blocks(ROOT / "docs/serving.md", "json")]
    sample = json.loads(block)["sureenough"]
    with in_thread(serving(Manner(tokens=30, answer="77"))) as server:
        out = se.ask("What is (3+4)*12-7?", se.OpenAI(server.url, "m"), "ac", paths=4)
    reply = consensus_details(RunResult(out, Transcript(0, "")))
    assert sample.keys() <= reply.keys()
    assert sample["tokens"].keys() == reply["tokens"].keys()


def why_not(words: list[str]) -> str | None:
    return next((why for mark, why in NOT_RUN.items() if any(mark in word for word in words)), None)


def test_every_reason_is_needed() -> None:
    every = [words for page in DOCUMENTS for words in commands(page) if words]
    assert ELSEWHERE.keys() == {words[0] for words in every} - {"sureenough"}
    assert NOT_RUN.keys() == {mark for mark in NOT_RUN for words in every if any(mark in word for word in words)}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with in_thread(serving(Manner(tokens=30, answer="7"))) as server:
        yield server.url


@pytest.mark.skipif(not RUN, reason="SUREENOUGH_DOCS=1 runs the commands of the documents")
@pytest.mark.parametrize("page", [page for page in with_commands() if page.id not in LONG])
def test_the_commands_of_a_page_run(page: Path, url: str, tmp_path: Path) -> None:
    for name in ("questions.csv", "problems.csv"):
        (tmp_path / name).write_text("question,gold\n3+4,7\nWhat is (3+4)*12-7?,77\n")
    (tmp_path / "questions.jsonl").write_text('{"question": "3+4", "gold": "7"}\n')
    rows = [{"id": "a", "completion": rf"So \boxed{{{answer}}}.", "gold": "7"} for answer in (7, 7, 9)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("math.parquet", "aime.parquet"):
        (tmp_path / name).write_bytes(PROBLEMS_POOL.read_bytes())
    for words in commands(page):
        if not words or words[0] != "sureenough" or why_not(words[1:]):
            continue
        if words[1] == "record" and "--url" not in words:  # instead of the pool that a server gave before
            (tmp_path / "pool.parquet").unlink(missing_ok=True)
        arguments = [re.sub(r"http://(localhost|10\.0\.0\.2):8000/v1", url, word) for word in words[1:]]
        done = sureenough(
            *arguments, *(["--repeats", "1"] if words[1] == "bench" else []), cwd=tmp_path, timeout=SECONDS
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr[-2000:]}"
