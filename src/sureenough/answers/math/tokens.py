"""An answer becomes a list of tokens in which every way of writing the same thing looks the same.

Spacing, sizing and font commands vanish, synonyms are folded, words come out as one token each with a
leading quote mark, so that nothing later has to look at LaTeX markup again.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise

# Commands that change how an answer looks and never what it says.
IGNORED = frozenset(
    r"""\left \right \middle \big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \biggl \biggr \Biggl \Biggr
    \! \, \; \: \  \> \quad \qquad \displaystyle \textstyle \scriptstyle \limits \nolimits \( \) \[ \] \$
    \thinspace \medspace \thickspace \negthinspace \enspace \newline \par \relax \bf \rm \it \sf
    \large \Large \normalsize \small \nonumber \centering""".split()
) | {"\\ ", "\\\n", "\\\t"}

# Commands whose braced argument says nothing either.
ARGUMENT_DROPPED = frozenset(r"\hspace \vspace \phantom \hphantom \vphantom \label \tag \color \hskip".split())

# Commands whose argument is prose.
TEXT_COMMANDS = frozenset(
    r"""\text \textbf \textit \textrm \textsf \texttt \textup \textnormal \mbox \hbox \mathrm
    \textsc \emph \operatorname""".split()
)

# Commands that change only the font of a symbol.
FONTS = frozenset(
    r"""\mathbf \boldsymbol \bm \mathit \mathsf \mathcal \mathscr \mathfrak \mathtt \vec \hat \bold
    \underline \pmb \boxed \fbox""".split()
)
# Commands that make one name of the letters under them: the vector AB is not the vector BA.
NAME_COMMANDS = frozenset(r"\overrightarrow \overleftarrow \vec \widehat \overleftrightarrow".split())
VECTOR_COMMANDS = frozenset(r"\mathbf \boldsymbol \bm \vec \hat \overrightarrow \bold \pmb".split())

SYNONYMS = {
    written: token
    for token, commands in {
        r"\frac": r"\dfrac \tfrac \cfrac", r"\binom": r"\dbinom \tbinom", "/": r"\over \div",
        "*": r"\cdot \times \ast \centerdot \bullet", r"\le": r"\leq \leqslant", r"\ge": r"\geq \geqslant",
        r"\ne": r"\neq", "<": r"\lt", ">": r"\gt", r"\{": r"\lbrace", r"\}": r"\rbrace", "[": r"\lbrack",
        "]": r"\rbrack", "(": r"\lparen", ")": r"\rparen", "|": r"\lvert \rvert \vert \mid", r"\circ": r"\degree",
        r"\infty": r"\infin", r"\emptyset": r"\varnothing", r"\in": r"\isin", r"\approx": r"\simeq \thickapprox",
        r"\epsilon": r"\varepsilon", r"\phi": r"\varphi", r"\log": r"\lg", r"\ldots": r"\dots \cdots \dotsc \dotsb",
        r"\cot": r"\ctg", r"\tan": r"\tg", r"\csc": r"\cosec", r"\cup": r"\bigcup", "%": r"\%", "&": r"\&", "#": r"\#",
        "_": r"\_", "'": r"\prime", "!": r"\dag", r"\wedge": r"\land", ":": r"\colon",
    }.items()
    for written in commands.split()
}  # fmt: skip

# As people type on a keyboard. 0.333... is not 0.333, and a space may be missing after \quad.
TYPED = (
    ("!=", r"\ne "), (">=", r"\ge "), ("<=", r"\le "), ("...", r"\ldots "), (r"\qquad", " "), (r"\quad", " "),
)  # fmt: skip

# As clocks are written: 01:58 A.M. is 1:58 am.
_CLOCK = (
    (re.compile(r"(?i)(?<=\d)((?:[\s~]|\\(?:text|mathrm)\s?\{)*[ap])\.?\s?m\b\.?"), r"\1m"),
    (re.compile(r"(?<![\d:.])0(?=\d:\d\d)"), ""),
)

UNICODE = str.maketrans(
    {
        char: text
        for text, chars in {
            "-": "−–—‐‑－", "\\times ": "×", "\\cdot ": "⋅·∙", "/": "÷⁄∕／", "\\pi ": "π", "\\infty ": "∞",
            "\\sqrt ": "√", "^\\circ ": "°", "\\le ": "≤", "\\ge ": "≥", "\\ne ": "≠", "\\approx ": "≈", "\\cup ": "∪",
            "\\cap ": "∩", "\\in ": "∈", "\\pm ": "±", "\\mp ": "∓", "\\emptyset ": "∅", "\\frac12 ": "½",
            "\\frac14 ": "¼", "\\frac34 ": "¾", "\\frac13 ": "⅓", "\\frac23 ": "⅔", "\\theta ": "θ", "\\alpha ": "α",
            "\\beta ": "β", "\\gamma ": "γ", "\\lambda ": "λ", "\\mu ": "μ", "\\phi ": "φ", "\\omega ": "ω",
            "\\Delta ": "Δ", "\\angle ": "∠", "\\mathbb{R}": "ℝ", "$": "€£¥₹", " ": "\u00a0\u2009\u202f\u3000",
            "": "\u200b\ufeff", ", ": "，、", ".": "。", ":": "：", "(": "（", ")": "）", "[": "［", "]": "］",
            "=": "＝", "+": "＋", "%": "％", ";": "；", "\\langle ": "⟨", "\\rangle ": "⟩", "'": "′’‘", '"': "“”",
            "|": "∣", "\\lfloor ": "⌊", "\\rfloor ": "⌋", "\\lceil ": "⌈", "\\rceil ": "⌉", "\\ldots ": "…",
        }.items()
        for char in chars
    }
    | {chr(ord("０") + ord(char) - ord("0")): char for char in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
)  # fmt: skip

# Characters that are always raised or lowered; a run of them is one exponent or subscript.
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", "0123456789+-=()ni")
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₕₖₗₘₙₚₛₜᵢⱼ", "0123456789+-=()aeoxhklmnpstij")

# Plain words that are mathematics: "sqrt(2)", "pi/2", "log 5".
FUNCTIONS = frozenset(
    """sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp sqrt pi infty
    alpha beta gamma theta lambda phi omega gcd lcm""".split()
)

GREEK = frozenset(
    r"""\alpha \beta \gamma \delta \epsilon \zeta \eta \theta \iota \kappa \lambda \mu \nu \xi \rho
    \sigma \tau \upsilon \phi \chi \psi \omega \Gamma \Delta \Theta \Lambda \Xi \Pi \Sigma \Phi \Psi
    \Omega \ell""".split()
)

# Words and upright letters that stand for something in mathematics, whatever font they are in.
NAMED = {"infinity": r"\infty", "inf": r"\infty", "i": "i", "e": "e"}

# Units short enough to be mistaken for a product of letters.
UNITS = frozenset(
    """cm mm km dm nm kg mg ml ft yd mi lb lbs oz hr hrs min mins sec secs mph kph kmh sq cu deg rad rads
    rpm usd eur gbp inr aud mol hz khz mhz kw kwh kj kpa kn ev psi pts pt ohm ohms day days gal
    and or the pct no yes per mod am pm""".split()
)

# English words that are hardly ever a product of letters; "by", "at" and "in" may be one.
SHORT_WORDS = frozenset(
    """to of if on or and the not but for are was has had its our can may nor yet via now how who why let get got odd by
    all any out few one two six ten off per yes""".split()
)

WORD = '"'  # the first character of a word token; no other token starts with it


def _words(text: str) -> frozenset[str]:
    return frozenset(WORD + word for word in text.split())


# A number followed by one of these is not that number: "5 or more", "between 3 and 4", "not 5".
_NOT_UNITS = _words(
    """and or not no to more less than least most through up down between mod modulo base if for where when
    such that with either neither nor except over under above below approximately about plus minus times
    divided remainder even odd is are was be does do cannot can undefined any all some other others
    none never respectively but only and/or thousand million billion trillion hundred dozen squared cubed
    root half third quarter pi infinity lakh lakhs crore crores gross pair pairs couple couples kilo mega giga
    milli micro nano bc ad bce ce am pm doubled tripled twice thrice otherwise unless out short"""
    # parts and counts
    """ halves thirds quarters fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths
    ninth ninths tenth tenths twelfth twelfths hundredth hundredths thousandth thousandths millionth
    millionths tens hundreds thousands millions billions trillions dozens score factorial choose"""
    # directions of change, of signs, of space, of time
    """ increase increased decrease decreased increasing decreasing profit loss gain deficit
    surplus positive negative imaginary north south east west northeast northwest southeast
    southwest northward southward eastward westward right upward downward upwards downwards forward
    forwards backward backwards clockwise counterclockwise anticlockwise inward outward ahead behind before
    after earlier later ago early late noon midnight morning afternoon evening greater
    fewer"""
    # dates
    """ january february march april may june july august september october november december jan feb mar
    apr jun jul aug sept oct nov dec monday tuesday wednesday thursday friday saturday sunday"""
)

_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen""".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_NUMBERS = {WORD + word: value for word, value in zip(_SMALL + _TENS, [*range(20), *range(20, 100, 10)], strict=True)}
_POWERS_OF_TEN = {
    '"hundred': 2, '"thousand': 3, '"lakh': 5, '"million': 6, '"crore': 7, '"billion': 9, '"trillion': 12,
}  # fmt: skip

ROMAN = frozenset("IVXLCDM")
_ROUGHLY = _words("approximately about roughly approx around nearly circa")
LISTING = _words("and or")

RELATIONS = frozenset(r"= < > \le \ge \ne \approx \in \sim \equiv".split())
ORDER = frozenset(r"< > \le \ge".split())


# -- brackets


OPEN = frozenset(r"( [ { \{ \langle \lfloor \lceil \begin".split())
CLOSE = frozenset(r") ] } \} \rangle \rfloor \rceil \end".split())


def split_outside_brackets(tokens: list[str], separators: Collection[str]) -> list[list[str]]:
    """The token lists between separators that stand outside all brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in OPEN) - (token in CLOSE)
        if depth == 0 and token in separators:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def group_end(
    tokens: list[str], at: int, opening: Collection[str] = OPEN, closing: Collection[str] = CLOSE
) -> int | None:
    """The place after the bracket at `at` and all in it, or after the single token there; None if it is not closed."""
    depth = 0
    for here in range(at, len(tokens)):
        depth += (tokens[here] in opening) - (tokens[here] in closing)
        if depth <= 0:
            return here + 1
    return None


def closes_at_end(tokens: list[str]) -> bool:
    """Whether the bracket that opens first is the one that closes last."""
    return group_end(tokens, 0) == len(tokens)


# -- tokens


_TOKEN = re.compile(r"\s+|\\[A-Za-z]+\*?|\\.|\d+(?:\.\d+)?|\.\d+|[A-Za-z]+|[\u00c0-\U0010ffff]+|.", re.DOTALL)
CHAT_MARKER = re.compile(r"<\|[a-z_]{1,30}\|>|</s>|<eos>|<end_of_turn>|<｜[^<>｜]{1,40}｜>|\[/INST\]|</answer>")
_RANGE = re.compile(r"(?<=\d) ?– ?(?=\d)")  # 5–7 is from 5 to 7, not a difference
_RAISED = re.compile(f"[{''.join(map(chr, SUPERSCRIPTS))}]+")
_LOWERED = re.compile(f"[{''.join(map(chr, SUBSCRIPTS))}]+")
_COMMAND_ONCE = re.compile(r"(?<!\\)\\[A-Za-z]")
_COMMAND_TWICE = re.compile(r"(?<!\\)\\\\[A-Za-z]{2}")
_EXPLICIT_COMMA = re.compile(r"(?<=\d)\s*(?:,\\!|\{,\}(?:\\!)?|\\!,)\s*(?=\d{3})")
_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)")
_SPACED = re.compile(r"(?<![\d.,^_}])(?<![\^_] )[1-9]\d{0,2}(?:(?:\\[,;: ]|[ ~\u00a0\u2009\u202f])\d{3})+(?!\d|\s*/)")
_AROUND = (("\\(", "\\)"), ("\\[", "\\]"), ("\\displaystyle", ""), ("{", "}"))
_MAX_WRAPPERS = 4
_DIGITS = frozenset("0123456789")
_OPENING = re.compile(r"[(\[]|\\\{|\\lbrace|\\begin|\\langle")
_PROSE = re.compile(r"[A-Za-z][A-Za-z .,;'-]*")
_RUN = re.compile(r"[A-Za-z]{3,}|[Nn]o")
_RUNS = re.compile(r"[A-Za-z]+|[^\sA-Za-z]")
_WORDS = UNITS | SHORT_WORDS
_NOT_PROSE = FUNCTIONS | set(NAMED) | {"and", "or"}
_LONGEST_PRODUCT_OF_LETTERS = 3  # "abc" among other mathematics is a product, "apples" is a word


def unwrapped(text: str) -> str:
    """Without the signs that may stand around a whole answer: dollars, asterisks, brackets of mathematics."""
    if text.rstrip()[-1:] in (">", "]"):
        text = CHAT_MARKER.sub("", text)
    for _ in range(_MAX_WRAPPERS):
        before, text = text, text.strip(" \t\r\n$*`")
        for opening, closing in _AROUND:
            if text.startswith(opening) and text.endswith(closing):
                inside = text[len(opening) : len(text) - len(closing)]
                text = inside if opening not in inside else text
        text = text[:-1] if text.endswith(".") and not text.endswith("...") else text
        if text == before:
            break
    return text


def tokenise(text: str) -> list[str]:
    """The tokens of an answer, without spaces; `$` and `\\$` are gone."""
    if not text.isascii():
        text = _RAISED.sub(lambda run: f"^{{{run[0].translate(SUPERSCRIPTS)}}}", text)
        text = _LOWERED.sub(lambda run: f"_{{{run[0].translate(SUBSCRIPTS)}}}", text)
        text = _RANGE.sub(r"\\text{to}", text).translate(UNICODE)
    if "\\\\" in text and _COMMAND_TWICE.search(text) and not _COMMAND_ONCE.search(text):
        text = text.replace("\\\\", "\\")  # LaTeX that was escaped once more, as in JSON
    if _PROSE.fullmatch(text) and any(run.casefold() not in _NOT_PROSE for run in _RUN.findall(text)):
        return [WORD + run.casefold() if len(run) > 1 else run for run in _RUNS.findall(text)]
    if "=" in text or "..." in text or "\\q" in text:
        for typed, command in TYPED:
            text = text.replace(typed, command)
    if ":" in text:
        for pattern, command in _CLOCK:
            text = pattern.sub(command, text)
    raw = _TOKEN.findall(_join_thousands(text))
    if "\\times" in raw and not VECTOR_COMMANDS.isdisjoint(raw):
        # A cross product does not commute: keep it apart from multiplication, unread.
        raw = ["\\cross" if token == "\\times" else token for token in raw]
    return _fold(raw)


def _join_thousands(text: str) -> str:
    """1,000 and 10,\\!080 and 1\\,000 lose their separators, but not inside brackets: (1,200) is a point."""
    if "," not in text and " " not in text and "\\" not in text and "~" not in text:
        return text
    text = _EXPLICIT_COMMA.sub("", text)
    opening = _OPENING.search(text)
    cut = opening.start() if opening else len(text)
    head, tail = text[:cut], text[cut:]
    head = _THOUSANDS.sub(lambda m: m[0].replace(",", ""), head)
    return _SPACED.sub(lambda m: re.sub(r"\D", "", m[0]), head) + tail


def _fold(raw: list[str]) -> list[str]:
    out: list[str] = []
    at, end = 0, len(raw)
    while at < end:
        token = raw[at]
        at += 1
        first = token[0]
        if first == "\\":
            at = _command(token, raw, at, out)
        elif first.isalpha():
            _letters(token, out)
        elif first == "$" or first.isspace() or first == "~":
            continue
        else:
            out.append(token)
    return out


def _command(token: str, raw: list[str], at: int, out: list[str]) -> int:
    if token in IGNORED:
        return at
    if token in ARGUMENT_DROPPED:
        return _braced(raw, at)[1]
    if token in TEXT_COMMANDS:
        inner, after = _braced(raw, at)
        _text(inner, out)
        return after
    if token in NAME_COMMANDS or token in FONTS:
        inner, after = _braced(raw, at)
        letters = "".join(inner).strip()
        if len(letters) > 1 and token in NAME_COMMANDS:
            out.append(f"\\mathbf{{{token[1:]} {letters}}}")
            return after
        if len(letters) == 1 and token in FONTS:
            # In bold, i and e are a vector or a name, not the imaginary unit or Euler's number.
            out.append(f"\\mathbf{{{letters}}}" if letters in "ie" else letters)
            return after
    if token in FONTS:
        return at
    out.append(SYNONYMS.get(token, token))
    return at


def _braced(raw: list[str], at: int) -> tuple[list[str], int]:
    """The tokens between the braces at `at`, or the single token there; and where they end."""
    while at < len(raw) and raw[at].isspace():
        at += 1
    if at >= len(raw):
        return [], at
    if raw[at] != "{":
        return [raw[at]], at + 1
    end = group_end(raw, at, "{", "}")
    return (raw[at + 1 :], len(raw)) if end is None else (raw[at + 1 : end - 1], end)


def _text(inner: list[str], out: list[str]) -> None:
    """Inside \\text a run of letters is a word, unless all are capitals that may be choices: \\text{(C)}."""
    letters = [token for token in inner if token[0].isalpha()]
    capitals = all(len(token) == 1 and token.isupper() for token in letters)
    for token in inner:
        if token.isspace() or token in "{}$~" or token in IGNORED:
            continue
        low = token.casefold()
        if (low in NAMED and (len(low) > 1 or token == low)) or low in FUNCTIONS:
            out.append(NAMED.get(low, "\\" + low))
        elif token[0].isalpha() and not capitals:
            out.append(WORD + low)
        else:
            out.append(SYNONYMS.get(token, token))


def _letters(run: str, out: list[str]) -> None:
    low = run.casefold()
    if len(run) == 1:
        out.append(run)
    elif low in NAMED:
        out.append(NAMED[low])
    elif low in FUNCTIONS and (run == low or run.istitle()):
        out.append("\\" + low)
    elif len(run) > _LONGEST_PRODUCT_OF_LETTERS or low in _WORDS or not run.isascii():
        out.append(WORD + low)
    elif run.isupper() and not ROMAN.issuperset(run):
        out.append(f"\\mathbf{{{run}}}")  # one name, as of a segment: TF is not FT
    else:
        out.extend(run)


def is_word(token: str) -> bool:
    return token[0] == WORD


def is_letter(token: str) -> bool:
    """Whether a token is the name of a quantity: a letter, Latin or Greek, or a name in bold."""
    return (len(token) == 1 and token.isalpha()) or token in GREEK or token.startswith("\\mathbf")


def is_numeral(token: str) -> bool:
    return token[:1] in _DIGITS or (token[:1] == "." and len(token) > 1)


# -- what stands around a value: punctuation and units go, choices and numbers in words are recognised, prose stays


_EDGE = frozenset((".", ",", ";", ":", "*", "`", "'", '"', "\\\\", "?"))
_LEADING = _EDGE - {".", "?"} | {"\\approx", "\\therefore", "\\implies", "\\Rightarrow", "="}
_CHOICE_WORDS = _words("option choice answer")
# Words with small exponents, as in m/s^2; not a second value, as in 5 feet 2 inches.
_UNIT = re.compile(r'(?: "\S*| [/.*%-]| \^(?: \{(?: -)? [123] \}| [123]))*')
_TIMES_OF_DAY = frozenset(('"am', '"pm', '"a "m', '"p "m'))
# A value does not end with these, so what follows them is not its unit: \mu_{static}, 3 \cdot \text{force}.
_EXPECTS_MORE = frozenset("+ - * / ^ _ = < > : | \\le \\ge \\ne \\approx \\frac \\sqrt \\in \\pm \\mp".split())
_MAX_BRACES = 8
_SHORT = 4


def strip_punctuation(tokens: list[str]) -> list[str]:
    """Without punctuation and markup at the ends, and without braces around the whole; x**2 becomes x^2."""
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
    if "*" not in inside:
        return inside
    out: list[str] = []
    for token in inside:  # two asterisks at the ends of an answer were markup, and are stripped already
        if token == "*" and out[-1:] == ["*"]:
            out[-1] = "^"
        else:
            out.append(token)
    return out


def _ends_in_prime(tokens: list[str]) -> bool:
    """Whether the last mark is a prime, as in x': not a closing quote, nor the feet of 5'."""
    before = next((token for token in reversed(tokens) if token != "'"), WORD)
    return tokens[0] != "'" and not is_word(before) and not is_numeral(before)


def choice_letter(tokens: list[str]) -> str | None:
    """The letter of C, (C) or Option C: one capital letter and nothing else."""
    if len(tokens) > 5:
        return None
    letters = [token for token in tokens[tokens[0] in _CHOICE_WORDS :] if token not in "()[]{}."]
    return letters[0] if len(letters) == 1 and len(letters[0]) == 1 and "A" <= letters[0] <= "Z" else None


def has_prose(tokens: list[str]) -> bool:
    """Whether there is a word that is not part of a name, as v_{max} is."""
    in_subscript = False
    for before, token in pairwise(("", *tokens)):
        if token == "{" and before == "_":
            in_subscript = True
        elif token == "}":
            in_subscript = False
        elif is_word(token) and not in_subscript and before != "_":
            return True
    return False


def strip_units(tokens: list[str]) -> list[str] | None:
    r"""The value in front of its unit (15 \text{cm}^2, 5.4 cents); None if the words are not a unit."""
    start = next((at for at, token in enumerate(tokens) if token not in _ROUGHLY), len(tokens))
    first = next((at for at in range(start, len(tokens)) if is_word(tokens[at])), len(tokens))
    core, unit = tokens[start:first], tokens[first:]
    depth = sum((token in OPEN) - (token in CLOSE) for token in core)
    if depth == 1 and core[-1] == "(" and unit[-1] == ")":
        core, unit, depth = core[:-1], unit[:-1], 0
    if depth or not core or core[-1] in _EXPECTS_MORE or ":" in core:
        return None
    if not any(token[0].isdigit() or token[0] == "\\" for token in core):
        return None
    if len(core) == 3 and core[1] == "-" and is_numeral(core[0]) and is_numeral(core[2]):
        return None  # 5-7 days is a range
    zeros = 0
    while unit and is_numeral(core[-1]) and unit[0] in _POWERS_OF_TEN:
        zeros += _POWERS_OF_TEN[unit[0]]
        unit = unit[1:]
    words = [token for token in unit if is_word(token)]
    if " ".join(words) in _TIMES_OF_DAY or not _NOT_UNITS.isdisjoint(words):
        return None
    if not _UNIT.fullmatch("".join(f" {token}" for token in unit)):
        return None
    return [*core, "*", "10", "^", "{", str(zeros), "}"] if zeros else core  # 2 million


def read_number_words(tokens: list[str]) -> list[str]:
    """Write the number that opens an answer in digits: five, twenty-one, one hundred and five apples."""
    if tokens[0] not in _NUMBERS:
        return tokens
    total = group = 0
    for at, token in enumerate([*tokens, ""]):
        if token in _NUMBERS:
            value, below = _NUMBERS[token], group % 100
            if (at and not group and not total) or (below and not (below >= 20 and not below % 10 and 0 < value < 10)):
                return tokens  # "one two" is not a number
            group += value
        elif token in _POWERS_OF_TEN and group:
            power = 10 ** _POWERS_OF_TEN[token]
            group, total = (group * power, total) if power == 100 else (0, total + group * power)
        elif token not in ("-", '"and') or not _continues(token, group or total, tokens[at + 1 :]):
            break
    return [str(total + group), *tokens[at:]]


def _continues(joint: str, so_far: int, following: list[str]) -> bool:
    """Whether "-" or "and" goes on with the same number: twenty-one, one hundred and five."""
    value = _NUMBERS.get(following[0], 0) if following else 0
    return bool(value) and (so_far % 100 >= 20 if joint == "-" else so_far % 100 == 0)


_TIMES = frozenset(("x", '"x', '"by'))  # 20 ft x 35 ft


def common_wording(tokens: list[str]) -> list[str]:
    """With one sign between dimensions, and without the plural of "no solutions"."""
    tokens = ["*" if token in _TIMES and is_numeral(before) else token for token, before in pairwise((*tokens, ""))]
    if tokens[0] == '"no' and is_word(tokens[-1]) and tokens[-1].endswith("s") and len(tokens[-1]) > _SHORT:
        return [*tokens[:-1], tokens[-1][:-1]]
    return tokens
