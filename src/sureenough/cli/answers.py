"""`sureenough answers`: are two answers the same, and why; or: what answer does a text give."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sureenough.answers import canonical_key, explain, extract, resolve_kind
from sureenough.cli.options import AsJson, Kind
from sureenough.cli.terminal import echo, echo_json
from sureenough.errors import UsageError


def command(
    pair: Annotated[list[str] | None, typer.Argument(metavar="A B", help="Two answers to compare.")] = None,
    file: Annotated[
        Path | None, typer.Option("--extract", metavar="FILE", help="Print the answer in this text; - reads stdin.")
    ] = None,
    kind: Kind = "math",
    choices: Annotated[str, typer.Option(help="With --kind choice: the letters that were offered.")] = "ABCD",
    fallback: Annotated[str | None, typer.Option(help="With --extract: last-number reads prose, too.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether two answers are the same and how that was decided, or extract the answer from a text."""
    if file is not None and not pair:
        _extract(file, kind, choices, fallback, as_json=as_json)
    elif file is None and pair and len(pair) == 2:
        if kind == "math":
            _compare(*pair, as_json=as_json)
        else:
            same = len(set(resolve_kind(kind).classes(pair))) == 1
            _print({"same": same}, "same" if same else "different", as_json=as_json)
    else:
        raise UsageError("give two answers to compare, or --extract FILE")


def _compare(one: str, two: str, *, as_json: bool) -> None:
    verdict = explain(one, two)
    keys = [canonical_key(one), canonical_key(two)]
    report = {"same": verdict.same, "why": str(verdict), "keys": [{"kind": k.kind, "text": k.text} for k in keys]}
    lines = [f"  {answer}  ->  {own.kind}: {own.text}" for answer, own in zip((one, two), keys, strict=True)]
    _print(report, "\n".join([str(verdict), *lines]), as_json=as_json)


def _print(report: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        echo_json(json.dumps(report))
    else:
        echo(text)


def _standard_input() -> str:
    if sys.stdin is None:
        raise UsageError("standard input is closed; name a file after --extract")
    return sys.stdin.buffer.read().decode("utf-8", errors="replace")


def _extract(file: Path, kind: str, choices: str, fallback: str | None, *, as_json: bool) -> None:
    try:
        text = _standard_input() if str(file) == "-" else file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    answer = extract(text, kind, choices=choices, fallback=fallback)
    _print({"answer": answer}, "no answer" if answer is None else answer, as_json=as_json)
    if answer is None:
        raise typer.Exit(1)
