"""Words around a value: units, markup and punctuation go, choices are recognised, prose stays prose."""

from __future__ import annotations

from sureenough.answers.brackets import closes_at_end
from sureenough.answers.tokens import is_numeral, is_word
from sureenough.answers.vocabulary import NOT_UNITS, ROUGHLY

_EDGE = frozenset((".", ",", ";", ":", "*", "`", "'", '"', "\\\\", "?"))
_LEADING = frozenset(
    (",", ";", ":", "*", "`", "'", '"', "\\\\", "\\approx", "\\therefore", "\\implies", "\\Rightarrow", "=")
)
_CHOICE_WORDS = frozenset(('"option', '"choice', '"answer'))
_BESIDE_UNITS = frozenset(("^", "/", ".", "2", "3", "{", "}", "-", "1", ")", "*", "%"))
_MAX_BRACES = 8
_SHORT = 4


def strip_punctuation(tokens: list[str]) -> list[str]:
    """Without punctuation and markup at the ends, and without braces around the whole."""
    start, end = 0, len(tokens)
    edge = _EDGE - {"'"} if tokens[-1:] == ["'"] and _ends_in_prime(tokens) else _EDGE
    for _ in range(_MAX_BRACES):
        while start < end and tokens[start] in _LEADING:
            start += 1
        while start < end and tokens[end - 1] in edge:
            end -= 1
        if end - start >= 2 and tokens[start] == "{" and closes_at_end(tokens[start:end]):
            start, end = start + 1, end - 1
        else:
            break
    inside = tokens[start:end]
    return _join_asterisks(inside) if "*" in inside else inside


def _ends_in_prime(tokens: list[str]) -> bool:
    """Whether the last mark is a prime, as in x': not a closing quote, nor the feet of 5'."""
    before = next((token for token in reversed(tokens) if token != "'"), '"')
    return tokens[0] != "'" and not is_word(before) and not is_numeral(before)


def _join_asterisks(tokens: list[str]) -> list[str]:
    """x**2 is x^2; at the ends of an answer two asterisks are markup, and gone by now."""
    out: list[str] = []
    for token in tokens:
        if token == "*" and out and out[-1] == "*":
            out[-1] = "^"
        else:
            out.append(token)
    return out


def choice_letter(tokens: list[str]) -> str | None:
    """C, (C), Option C: one capital letter, whatever stands around it."""
    if len(tokens) > 5:
        return None
    if len(tokens) > 1 and tokens[0] in _CHOICE_WORDS:
        tokens = tokens[1:]
    letters = [token for token in tokens if token not in ("(", ")", "[", "]", "{", "}", ".")]
    if len(letters) == 1 and len(letters[0]) == 1 and "A" <= letters[0] <= "Z":
        return letters[0]
    return None


def strip_units(tokens: list[str]) -> list[str] | None:
    """The value in front of its unit (15 \\text{cm}^2, 5.4 cents); None where the words are not a unit."""
    start = 0
    while start < len(tokens) and tokens[start][1:] in ROUGHLY and is_word(tokens[start]):
        start += 1
    first = next((at for at in range(start, len(tokens)) if is_word(tokens[at])), len(tokens))
    core, unit = tokens[start:first], tokens[first:]
    if not any(token[0].isdigit() or token[0] == "\\" for token in core):
        return None
    if any(token[1:] in NOT_UNITS if is_word(token) else token not in _BESIDE_UNITS for token in unit):
        return None
    if core[-1] == "(" and unit and unit[-1] == ")":
        core = core[:-1]
    return core


def singular_negation(tokens: list[str]) -> list[str]:
    """Of nothing there is one kind: "No solutions" says no more than "no solution"."""
    if tokens[0] == '"no' and is_word(tokens[-1]) and tokens[-1].endswith("s") and len(tokens[-1]) > _SHORT:
        return [*tokens[:-1], tokens[-1][:-1]]
    return tokens
