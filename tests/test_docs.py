"""Documents tell the truth: references exist, examples run and print what they say they print."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def examples() -> list[tuple[str, str, str]]:
    found = []
    for document in DOCUMENTS:
        for i, (code, printed) in enumerate(EXAMPLE.findall(document.read_text())):
            found.append((f"{document.relative_to(ROOT)}#{i}", code, printed))
    return found


@pytest.mark.parametrize(("code", "printed"), [pytest.param(c, p, id=name) for name, c, p in examples()])
def test_an_example_prints_what_it_says(code: str, printed: str) -> None:
    out = io.StringIO()
    example = sys.modules["example"] = types.ModuleType("example")  # dataclasses look their module up
    with contextlib.redirect_stdout(out):
        exec(compile(code, "example", "exec"), example.__dict__)
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [line.rstrip() for line in printed.splitlines()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (document.parent / target).exists(), target


def test_every_function_and_test_that_paper_md_names_exists() -> None:
    text = (ROOT / "docs" / "paper.md").read_text()
    tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(tests) > 20
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


def test_the_readme_shows_what_replay_prints() -> None:
    text = (ROOT / "README.md").read_text()
    shown = re.search(r"```text\n(built-in pool.*?)```", text, re.DOTALL)
    assert shown is not None
    command = [sys.executable, "-m", "sureenough", "replay"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, env=os.environ | {"NO_COLOR": "1"}
    )
    assert done.stdout.rstrip() == shown[1].rstrip()


def test_the_two_commands_of_the_readme() -> None:
    lines = [line for block in re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
             for line in block.splitlines() if "pip install" in line]  # fmt: skip
    assert lines[0] == "pip install '.[local]' && sureenough demo"
    assert lines[1] == "pip install -e '.[dev]' && pytest -n auto"


def test_nothing_names_a_machine_or_its_owner() -> None:
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.split()
    for name in tracked or [str(path.relative_to(ROOT)) for path in DOCUMENTS]:
        path = ROOT / name
        if path.suffix in {".md", ".py", ".toml", ".txt", ".svg"} and path.exists() and path.name != "test_docs.py":
            assert not re.search(r"/root/|/work/|/home/\w", path.read_text()), name
