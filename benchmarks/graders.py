"""How our grading agrees with public graders' own tests, beside those graders' expectations and math-verify's verdicts.

    pip download --no-binary :all: --no-deps math-verify==0.9.0 inspect-ai==0.3.210
    tar xzf math_verify-0.9.0.tar.gz && tar xzf inspect_ai-0.3.210.tar.gz
    python benchmarks/graders.py math_verify-0.9.0 inspect_ai-0.3.210 [--list]

The cases are read from the unpacked source distributions at run time and are not part of this project. A case is a gold
text, a text to grade and the expected verdict. The tests put prose around the answers; ours reads the box or
announcement in a text, else its last formula, else its last number.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sureenough import answers

POLICIES = ("percent", "rounding", "decimal_comma")
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$((?:[^$\\]|\\.)+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)


class Case(NamedTuple):
    """One expected verdict, and where it stands."""

    file: str
    test: str
    gold: str
    text: str
    same: bool


def cases(folder: Path) -> Iterator[Case]:
    """Every literal (gold, text, verdict) of a parametrised test, apart from tests of a grader's own options."""
    for file in sorted((folder / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in node.decorator_list:
                    yield from _parametrised(file.name, node.name, decorator)


def _parametrised(file: str, test: str, decorator: ast.expr) -> Iterator[Case]:
    if (
        not isinstance(decorator, ast.Call)
        or len(decorator.args) < 2
        or not isinstance(decorator.args[0], ast.Constant)
    ):
        return
    names = tuple(name.strip() for name in str(decorator.args[0].value).split(","))
    if names[:2] not in (("gold", "pred"), ("output", "target")) or not isinstance(decorator.args[1], ast.List):
        return
    for element in decorator.args[1].elts:
        try:
            row = dict(zip(names, map(_value, getattr(element, "elts", [])), strict=True))
        except ValueError:  # not a literal
            continue
        if row.get("strict", True) and not row.get("allow_set_relation_comp", False):
            gold, text = (str(row.get(a, row.get(b))) for a, b in (("gold", "target"), ("pred", "output")))
            yield Case(file, test, gold, text, bool(row.get("expected", row.get("result"))))


def _value(node: ast.expr) -> Any:
    """A literal, or one of inspect_ai's two verdicts."""
    if isinstance(node, ast.Name) and node.id in ("CORRECT", "INCORRECT"):
        return node.id == "CORRECT"
    return ast.literal_eval(node)


def answer_in(text: str) -> str:
    """What a text answers, for tests that put answers into prose without announcing them."""
    announced = answers.extract(text)
    if announced is not None:
        return announced
    if text.startswith("$"):  # $1$ and $2$
        listed = answers.extract(f"Answer: {text}")
        if listed is not None and text.endswith("$"):
            return listed
    formulas = [next(group for group in found.groups() if group) for found in _FORMULA.finditer(text)]
    if formulas:
        return formulas[-1]
    if answers.canonical_key(text).kind != "text":
        return text
    return answers.extract(text, "math:fallback=last-number") or text


def ours(case: Case, **policies: bool) -> bool:
    return answers.grade(answer_in(case.gold), answer_in(case.text), **policies)


def theirs(case: Case) -> bool:
    from math_verify import parse, verify

    return bool(verify(parse(case.gold), parse(case.text)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="unpacked source distributions of graders")
    parser.add_argument("--list", action="store_true", help="print every case on which ours disagrees")
    parser.add_argument("--least", type=float, default=0.0, help="exit with 1 if ours agrees with a smaller share")
    parser.add_argument("--merges", type=int, default=sys.maxsize, help="exit with 1 if ours has more wrong merges")
    options = parser.parse_args()
    results = [report(folder, listing=options.list) for folder in options.folders]
    return int(any(share < options.least or merges > options.merges for share, merges in results))


def report(folder: Path, *, listing: bool) -> tuple[float, int]:
    """Print the table of one suite; the share of its cases on which ours agrees, and its wrong merges."""
    suite = list(cases(folder))
    strict = [ours(case) for case in suite]
    lenient = [ours(case, **dict.fromkeys(POLICIES, True)) for case in suite]
    other = [theirs(case) for case in suite]
    print(f"{folder.name}: {len(suite)} cases, {sum(case.same for case in suite)} of them pairs that are the same")
    print(f"{'':44}{'agree':>7}{'':9}{'wrong merges':>14}{'misses':>8}")
    for name, verdicts in (
        ("ours, as in a vote's grading", strict),
        (f"ours, with {', '.join(POLICIES)}", lenient),
        ("math-verify", other),
    ):
        pairs = list(zip(suite, verdicts, strict=True))
        agree = sum(case.same == verdict for case, verdict in pairs)
        merges = sum(verdict and not case.same for case, verdict in pairs)
        share = f"{agree / len(suite):.1%}"
        print(f"{name:<44}{agree:>7}{share:>9}{merges:>14}{len(suite) - agree - merges:>8}")
    for case, verdict in zip(suite, lenient, strict=True):
        if listing and verdict != case.same:
            kind = "wrong merge" if verdict else "miss"
            read = f"{answer_in(case.gold)!r} | {answer_in(case.text)!r}"
            print(f"{kind}: {case.test}: {case.gold!r} | {case.text!r}  read as  {read}")
    merged = sum(verdict and not case.same for case, verdict in zip(suite, strict, strict=True))
    return sum(case.same == verdict for case, verdict in zip(suite, strict, strict=True)) / len(suite), merged


if __name__ == "__main__":
    sys.exit(main())
