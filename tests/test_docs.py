"""The documents are true and plain: references exist, examples print what they show, quoted messages are real."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import re
import subprocess
import sys
import tokenize
import tomllib
import types
from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import get_args

import pytest

from sureenough.core.events import Action, Event
from sureenough.core.outcome import Phase
from sureenough.core.session import TRANSITIONS
from sureenough.engines.openai.wire import FINISH_REASONS
from tests.processes import sureenough

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"^> .*(?:\n> .*)*", re.MULTILINE)

CARDS = [
    ROOT / name
    for name in (
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "examples/README.md",
        "training/README.md",
        "training/searcher/README.md",
        "src/sureenough/data/README.md",
    )
]
TICS = {
    r"\bis no (?!longer\b)[a-z]+\b": "is not a …, without …, nothing …",
    r"\b[Nn]obody\b": "no path, no response, …",
    r"\b(tokens|seconds|ms|us|µs|bytes|paths|candidates|connection|row|line|file|O\(1\)) an? "
    r"(token|path|chunk|question|second|row|request|step|run|process|repeat|frame)\b": "per token, per path, …",
    r"\b[Ww]here (it|there|one|none|they) (is|are|has|have)\b": "if it is …, if there are …",
}
"""Habits of this project that make readers stumble, each with what to write instead."""


def examples() -> list[tuple[str, str, str]]:
    found = []
    for document in DOCUMENTS:
        for i, (code, printed) in enumerate(EXAMPLE.findall(document.read_text())):
            found.append((f"{document.relative_to(ROOT)}#{i}", code, printed))
    return found


def test_the_table_of_limits_is_that_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python scripts/docs_reference.py` writes it."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    reference = importlib.import_module("docs_reference")
    assert reference.LIMITS_PAGE.read_text("utf-8") == reference.limits()


@pytest.mark.parametrize(("code", "printed"), [pytest.param(c, p, id=name) for name, c, p in examples()])
def test_an_example_prints_what_it_says(code: str, printed: str) -> None:
    out = io.StringIO()
    example = sys.modules["example"] = types.ModuleType("example")  # dataclasses look their module up
    with contextlib.redirect_stdout(out):
        exec(compile(code, "example", "exec"), example.__dict__)
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [line.rstrip() for line in printed.splitlines()]


@pytest.mark.parametrize("document", [*DOCUMENTS, *CARDS], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(document: Path) -> None:
    for target, anchor in LINK.findall(FENCED.sub("", document.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = document.parent / target if target else document
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{target}#{anchor}"


@pytest.mark.parametrize("document", [*DOCUMENTS, *CARDS], ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_page_names_exist(document: Path) -> None:
    places = ROOT, ROOT / "src" / "sureenough"
    names = re.findall(r"`(?:python )?((?:[\w.-]+/)+(?:[\w-]+\.(?:py|csv|md|js))?)(?:::\w+)?`", document.read_text())
    assert [name for name in names if not any((place / name).exists() for place in places)] == []


@cache
def anchors(document: Path) -> set[str]:
    """The names under which a page's headings can be linked to, as GitHub forms them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "least"), [("paper.md", 20), ("deviations.md", 30), ("decisions.md", 5)])
def test_every_function_and_test_that_a_page_names_exists(page: str, least: int) -> None:
    text = (ROOT / "docs" / page).read_text()
    tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(tests) >= least
    for file, name in tests:
        assert (ROOT / file).exists(), file
        assert not name or f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"
    for dotted in set(re.findall(r"`((?:core|drivers|strategies|answers)\.[\w.]+)`", text)):
        assert resolves(dotted), dotted


def resolves(dotted: str) -> bool:
    """Whether a dotted name under the package leads to a module or to something in one."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module("sureenough." + ".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            if not hasattr(thing, name):
                return False
            thing = getattr(thing, name)
        return True
    return False


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next one of its level."""
    return (ROOT / "docs" / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_table_of_phases_has_every_transition() -> None:
    table = re.findall(
        r"^\| `(\w+)` \| (.+) \| `(\w+)` \| (.+) \|$", section("read-the-code.md", "Phases of a session"), re.MULTILINE
    )
    shown = {(Phase[phase], Phase[following]) for phase, _, following, _ in table}
    assert {phase for phase, _ in shown} == set(Phase)
    assert {(a, b) for a, b in shown if a != b} == {(a, b) for a, after in TRANSITIONS.items() for b in after}
    for column, types_ in ((1, Event), (3, Action)):
        names = {name for row in table for name in re.findall(r"`([A-Z]\w+)`", row[column])}
        assert names == {one.__name__ for one in get_args(types_)}


@pytest.mark.parametrize(("heading", "steps"), [("The walk of a token", 8), ("The walk of a recorded path", 12)])
def test_every_function_of_a_walk_is_in_the_file_that_it_links_to(heading: str, steps: int) -> None:
    text = section("read-the-code.md", heading)
    assert len(re.findall(r"^\d+\. \[`", text, re.MULTILINE)) == steps
    links = re.findall(r"\[`([\w.]+)`\]\(\.\./src/([\w/]+)\.py\)", text)
    assert len(links) == text.count("](")
    for name, file in links:
        module = importlib.import_module(file.replace("/", "."))
        assert attrgetter(name)(module), name
        assert getattr(module, name.split(".")[0]).__module__ == module.__name__, f"{name} is not defined in {file}"


def test_the_finish_reasons_are_those_of_the_parser() -> None:
    table = re.findall(r"^\| (`.+) \| `(\w+)` \|", section("troubleshooting.md", "Paths are lost"), re.MULTILINE)
    assert {reason: finish for reasons, finish in table for reason in re.findall(r"`(\w+)`", reasons)} == FINISH_REASONS


def test_the_start_shows_what_the_demo_prints() -> None:
    printed = sureenough("demo", "--no-live").stdout.rstrip()
    shown = re.search(r"```text\n(Strategies on the same.*?)```", (ROOT / "docs/start.md").read_text(), re.DOTALL)
    assert shown is not None
    assert printed == shown[1].rstrip()


def test_the_two_commands_of_the_readme() -> None:
    marked = re.findall(r"^<!-- command: (\w+) -->\n```sh\n(.*)\n```", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert dict(marked) == {
        "demo": "pip install '.[local]' && sureenough demo",
        "tests": "pip install -e '.[dev]' && pytest -n auto",
    }, ".ci/run runs them"


LONG_PAGES = dict.fromkeys(("deviations.md", "reproducing.md"), 4000)
UNCOUNTED = {"LOG.md", "limits.md"}
"""The log, and a page that is generated."""


def test_pages_are_short() -> None:
    words = {
        page.name: len(page.read_text().split()) for page in (ROOT / "docs").glob("*.md") if page.name not in UNCOUNTED
    }
    assert len(words) <= 20
    assert sum(words.values()) <= 30_000
    assert {name: n for name, n in words.items() if n > LONG_PAGES.get(name, 1500)} == {}


def test_every_extra_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    used = {name for page in DOCUMENTS for names in re.findall(r"'\.\[([\w,-]+)\]'", page.read_text())
            for name in names.split(",")}  # fmt: skip
    assert used <= extras.keys()
    required = [*project["dependencies"], *(one for many in extras.values() for one in many)]
    known = ("sureenough[", "ray[serve]")  # Ray's metadata say "Provides-Extra: serve"
    foreign = [one for one in required if "[" in one and not one.startswith(known)]
    assert foreign == [], "pip warns about extras that a package spells differently in its own metadata"


@pytest.mark.parametrize("page", ["troubleshooting.md", "local.md"])
def test_quoted_messages_are_the_programs(page: str) -> None:
    quotes = [
        " ".join(line[2:] for line in quote.splitlines())
        for quote in QUOTED.findall((ROOT / "docs" / page).read_text())
    ]
    assert len(quotes) > 5
    assert [quote for quote in quotes if not any(message.search(quote) for message in messages())] == []


@cache
def messages() -> list[re.Pattern[str]]:
    """The package's messages as patterns, in which the values that are filled in may be anything."""
    patterns = set()
    for file in (ROOT / "src").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [part.value if isinstance(part, ast.Constant) else None for part in parts]
            length = sum(len(text) for text in texts if isinstance(text, str))
            if length >= (10 if len(parts) > 1 else 20) and id(node) not in inner:
                patterns.add("".join(re.escape(text) if isinstance(text, str) else ".*?" for text in texts))
    return [re.compile(pattern) for pattern in patterns]


def plain_texts() -> Iterator[tuple[str, str]]:
    """Prose of the documents without code and quoted messages, and strings and comments of the source files."""
    for document in [*DOCUMENTS, *CARDS]:
        text = FENCED.sub("", document.read_text())
        yield str(document.relative_to(ROOT)), re.sub(r"`[^`\n]*`", "`…`", QUOTED.sub("", text))
    for file in sorted((ROOT / "src").rglob("*.py")):
        strings = [node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)]
        with file.open("rb") as source:
            comments = [token.string for token in tokenize.tokenize(source.readline) if token.type == tokenize.COMMENT]
        texts = [text for text in strings if isinstance(text, str)]
        yield str(file.relative_to(ROOT)), " · ".join([*texts, *(comment.lstrip("# ") for comment in comments)])


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in plain_texts()])
def test_the_english_is_plain(text: str) -> None:
    one_line = " ".join(text.split())
    found = {better: [match[0] for match in re.finditer(tic, one_line)] for tic, better in TICS.items()}
    assert {better: phrases for better, phrases in found.items() if phrases} == {}


def test_nothing_names_a_machine_or_its_owner() -> None:
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.split()
    for name in tracked or [str(path.relative_to(ROOT)) for path in DOCUMENTS]:
        path = ROOT / name
        if path.suffix in {".md", ".py", ".toml", ".txt", ".svg"} and path.exists() and path.name != "test_docs.py":
            assert not re.search(r"/root/|/work/|/home/\w", path.read_text()), name
