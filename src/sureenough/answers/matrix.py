"""Matrices: any bracket style is the same matrix, and a factor in front is multiplied in."""

from __future__ import annotations

from sureenough.answers import numerals
from sureenough.answers.algebra import constant, multiply, number
from sureenough.answers.atoms import Sum, Unreadable, write
from sureenough.answers.key_types import Key, Read, matrix_key
from sureenough.answers.parse import MAX_TOKENS, parse_expression

ENVIRONMENT = "\\begin"
_NAMES = frozenset(('"pmatrix', '"bmatrix', '"matrix', '"smallmatrix', '"array'))
_ROW = "\\\\"
MAX_ENTRIES = 100


def read_matrix(tokens: list[str], depth: int, read: Read) -> Key | None:
    """The key of one matrix, with its factor; None for anything else between \\begin and \\end."""
    start = tokens.index(ENVIRONMENT)
    name = tokens[start + 2 : start + 3]
    if not name or name[0] not in _NAMES or tokens[-4:] != ["\\end", "{", name[0], "}"]:
        return None
    body = tokens[start + 4 : -4]
    if ENVIRONMENT in body or len(body) > 1000:
        return None
    if name[0] == '"array' and body[:1] == ["{"]:
        body = body[body.index("}") + 1 :]
    rows = _rows(body)
    if sum(map(len, rows)) > MAX_ENTRIES or len({len(row) for row in rows}) != 1:
        return None
    factor = tokens[:start]
    if factor[-1:] == ["*"]:
        factor = factor[:-1]
    if not factor:
        return matrix_key([[read(entry, depth + 1) for entry in row] for row in rows])
    return _scaled(factor, rows)


def _rows(body: list[str]) -> list[list[list[str]]]:
    rows: list[list[list[str]]] = [[[]]]
    for token in body:
        if token == _ROW:
            rows.append([[]])
        elif token == "&":
            rows[-1].append([])
        elif token != "\\hline":
            rows[-1][-1].append(token)
    return rows[:-1] if rows[-1] == [[]] and len(rows) > 1 else rows


def _scaled(factor: list[str], rows: list[list[list[str]]]) -> Key | None:
    try:
        times = number(-1) if factor == ["-"] else parse_expression(factor)
        return matrix_key([[_entry(multiply(times, parse_expression(entry))) for entry in row] for row in rows])
    except Unreadable:
        return None


def _entry(total: Sum) -> Key:
    value = constant(total)
    if value is not None:
        return Key("number", numerals.rational_text(value))
    text = write(total)
    if len(text) > MAX_TOKENS:
        raise Unreadable("an entry too long to read back")
    return Key("expression", text, value=total)
