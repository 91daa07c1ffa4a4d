"""What the source must not contain."""

from __future__ import annotations

import ast
import doctest
from pathlib import Path

import pytest

from sureenough import answers

FOLDER = Path(answers.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
FORBIDDEN = {*"eval exec compile parse_expr sympify __import__ literal_eval pickle marshal".split()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_model_text_can_be_evaluated(path: Path) -> None:
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    }
    assert not FORBIDDEN & names
    assert not (FORBIDDEN - {"compile"}) & called  # re.compile
    assert not FORBIDDEN & imported


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_symbolic_is_loaded_and_no_process_is_started(path: Path) -> None:
    text = path.read_text()
    assert not any(name in text for name in ("math_verify", "sympy", "subprocess", "multiprocessing", "os.fork"))
    assert text.startswith('"""')


def test_the_examples_in_the_docstring_are_true() -> None:
    failed, tried = doctest.testmod(answers)
    assert (failed, tried > 3) == (0, True)
