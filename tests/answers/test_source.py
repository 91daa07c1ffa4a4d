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
def test_no_model_text_can_be_evaluated_and_no_process_is_started(path: Path) -> None:
    text = path.read_text()
    nodes = [*ast.walk(ast.parse(text))]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    called = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
    assert not FORBIDDEN & (names | imported)
    assert not (FORBIDDEN - {"compile"}) & called  # re.compile
    assert not any(name in text for name in ("math_verify", "sympy", "subprocess", "multiprocessing", "os.fork"))


def test_the_examples_in_the_docstring_are_true() -> None:
    failed, tried = doctest.testmod(answers)
    assert (failed, tried > 3) == (0, True)
