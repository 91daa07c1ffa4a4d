"""What stands around a value: punctuation and units go, choices and numbers in words are recognised, prose stays."""

from __future__ import annotations

from sureenough.answers.brackets import CLOSE, OPEN, closes_at_end
from sureenough.answers.tokens import is_numeral, is_word
from sureenough.answers.vocabulary import NOT_UNITS, NUMBER_WORDS, POWERS_OF_TEN, ROUGHLY

_EDGE = frozenset((".", ",", ";", ":", "*", "`", "'", '"', "\\\\", "?"))
_LEADING = frozenset(
    (",", ";", ":", "*", "`", "'", '"', "\\\\", "\\approx", "\\therefore", "\\implies", "\\Rightarrow", "=")
)
_CHOICE_WORDS = frozenset(('"option', '"choice', '"answer'))
_BETWEEN_UNITS = frozenset(("/", ".", "-", "*", "%"))
# A value does not end with these, so what follows them is not its unit: \mu_{static}, 3 \cdot \text{force}.
_EXPECTS_MORE = frozenset("+ - * / ^ _ = < > : | \\le \\ge \\ne \\approx \\frac \\sqrt \\in \\pm \\mp".split())
_TIMES_OF_DAY = frozenset((("am",), ("pm",), ("a", "m"), ("p", "m")))
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
    """Read x**2 as x^2; two asterisks at the ends of an answer are markup, and already stripped."""
    out: list[str] = []
    for token in tokens:
        if token == "*" and out and out[-1] == "*":
            out[-1] = "^"
        else:
            out.append(token)
    return out


def choice_letter(tokens: list[str]) -> str | None:
    """The letter of C, (C) or Option C: one capital letter and nothing else."""
    if len(tokens) > 5:
        return None
    if len(tokens) > 1 and tokens[0] in _CHOICE_WORDS:
        tokens = tokens[1:]
    letters = [token for token in tokens if token not in ("(", ")", "[", "]", "{", "}", ".")]
    if len(letters) == 1 and len(letters[0]) == 1 and "A" <= letters[0] <= "Z":
        return letters[0]
    return None


def has_prose(tokens: list[str]) -> bool:
    """Whether there is a word that is not part of a name, as v_{max} is."""
    in_subscript = False
    for at, token in enumerate(tokens):
        if token == "{" and at and tokens[at - 1] == "_":
            in_subscript = True
        elif token == "}":
            in_subscript = False
        elif is_word(token) and not in_subscript and not (at and tokens[at - 1] == "_"):
            return True
    return False


def strip_units(tokens: list[str]) -> list[str] | None:
    r"""The value in front of its unit (15 \text{cm}^2, 5.4 cents); None if the words are not a unit."""
    start = 0
    while start < len(tokens) and is_word(tokens[start]) and tokens[start][1:] in ROUGHLY:
        start += 1
    first, depth = start, 0
    while first < len(tokens) and not is_word(tokens[first]):
        depth += (tokens[first] in OPEN) - (tokens[first] in CLOSE)
        first += 1
    core, unit = tokens[start:first], tokens[first:]
    if depth == 1 and core[-1] == "(" and unit[-1] == ")":
        core, unit, depth = core[:-1], unit[:-1], 0
    if depth or not core or core[-1] in _EXPECTS_MORE or ":" in core:
        return None
    if not any(token[0].isdigit() or token[0] == "\\" for token in core):
        return None
    if len(core) == 3 and core[1] == "-" and is_numeral(core[0]) and is_numeral(core[2]):
        return None  # 5-7 days is a range
    core, unit = _scaled(core, unit)
    return core if _is_unit(unit) else None


def _scaled(core: list[str], unit: list[str]) -> tuple[list[str], list[str]]:
    """Read 2 million as 2 times 10^6."""
    zeros = 0
    while unit and is_numeral(core[-1]) and unit[0][1:] in POWERS_OF_TEN:
        zeros += POWERS_OF_TEN[unit[0][1:]]
        unit = unit[1:]
    return ([*core, "*", "10", "^", "{", str(zeros), "}"], unit) if zeros else (core, unit)


def _is_unit(tokens: list[str]) -> bool:
    """Words with small exponents, as in m/s^2; not a second value, as in 5 feet 2 inches."""
    words = tuple(token[1:] for token in tokens if is_word(token))
    if words in _TIMES_OF_DAY or not NOT_UNITS.isdisjoint(words):
        return False
    at = 0
    while at < len(tokens):
        if tokens[at] == "^":
            exponent = tokens[at + 1 : at + 5]
            size = exponent.index("}") + 1 if exponent[:1] == ["{"] and "}" in exponent else 1
            if "".join(exponent[:size]).strip("{-}") not in ("1", "2", "3"):
                return False
            at += size
        elif not is_word(tokens[at]) and tokens[at] not in _BETWEEN_UNITS:
            return False
        at += 1
    return True


def read_number_words(tokens: list[str]) -> list[str]:
    """Write the number that opens an answer in digits: five, twenty-one, one hundred and five apples."""
    total = group = at = 0
    for at, token in enumerate(tokens):
        word = token[1:] if is_word(token) else token
        if word in NUMBER_WORDS:
            value, below = NUMBER_WORDS[word], group % 100
            if (at and not group and not total) or (below and not (below >= 20 and not below % 10 and 0 < value < 10)):
                return tokens  # "one two" is not a number
            group += value
        elif word in POWERS_OF_TEN and group:
            power = 10 ** POWERS_OF_TEN[word]
            group, total = (group * power, total) if power == 100 else (0, total + group * power)
        elif not (word in ("-", "and") and at + 1 < len(tokens) and _continues(word, group or total, tokens[at + 1])):
            break
    else:
        at = len(tokens)
    return [str(total + group), *tokens[at:]]


def _continues(word: str, so_far: int, following: str) -> bool:
    """Whether "-" or "and" goes on with the same number: twenty-one, one hundred and five."""
    value = NUMBER_WORDS.get(following[1:], 0)
    return bool(value) and (so_far % 100 >= 20 if word == "-" else so_far % 100 == 0)


def singular_negation(tokens: list[str]) -> list[str]:
    """Without the plural of "no solutions", which says the same as "no solution"."""
    if tokens[0] == '"no' and is_word(tokens[-1]) and tokens[-1].endswith("s") and len(tokens[-1]) > _SHORT:
        return [*tokens[:-1], tokens[-1][:-1]]
    return tokens
