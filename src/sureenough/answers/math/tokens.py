"""An answer becomes a list of tokens in which every way of writing the same thing looks the same.

Spacing, sizing and font commands vanish, synonyms are folded, words come out as one token each with a
leading quote mark, so that nothing later has to look at LaTeX markup again.
"""

from __future__ import annotations

import re
from collections.abc import Collection

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
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\cfrac": r"\frac", r"\over": "/",
    r"\dbinom": r"\binom", r"\tbinom": r"\binom",
    r"\cdot": "*", r"\times": "*", r"\ast": "*", r"\centerdot": "*", r"\bullet": "*", r"\div": "/",
    r"\leq": r"\le", r"\leqslant": r"\le", r"\geq": r"\ge", r"\geqslant": r"\ge", r"\neq": r"\ne",
    r"\lt": "<", r"\gt": ">", r"\lbrace": r"\{", r"\rbrace": r"\}", r"\lbrack": "[", r"\rbrack": "]",
    r"\lvert": "|", r"\rvert": "|", r"\vert": "|", r"\mid": "|", r"\lparen": "(", r"\rparen": ")",
    r"\degree": r"\circ", r"\infin": r"\infty", r"\varnothing": r"\emptyset", r"\isin": r"\in",
    r"\simeq": r"\approx", r"\thickapprox": r"\approx", r"\varepsilon": r"\epsilon", r"\varphi": r"\phi",
    r"\lg": r"\log", r"\dots": r"\ldots", r"\cdots": r"\ldots", r"\dotsc": r"\ldots", r"\dotsb": r"\ldots",
    r"\ctg": r"\cot", r"\tg": r"\tan", r"\cosec": r"\csc", r"\bigcup": r"\cup", r"\%": "%", r"\&": "&",
    r"\#": "#", r"\_": "_", r"\prime": "'", r"\dag": "!", r"\land": r"\wedge", r"\colon": ":",
}  # fmt: skip

# As people type on a keyboard. 0.333... is not 0.333, and a space may be missing after \quad.
TYPED = (
    ("!=", r"\ne "), (">=", r"\ge "), ("<=", r"\le "), ("...", r"\ldots "), (r"\qquad", " "), (r"\quad", " "),
)  # fmt: skip

UNICODE = {
    ord(char): text
    for char, text in {
        "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": "\\times ", "⋅": "\\cdot ", "·": "\\cdot ",
        "∙": "\\cdot ", "÷": "/", "⁄": "/", "∕": "/", "π": "\\pi ", "∞": "\\infty ", "√": "\\sqrt ", "°": "^\\circ ",
        "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "≈": "\\approx ", "∪": "\\cup ", "∩": "\\cap ", "∈": "\\in ",
        "±": "\\pm ", "∓": "\\mp ", "∅": "\\emptyset ", "½": "\\frac12 ", "¼": "\\frac14 ", "¾": "\\frac34 ",
        "⅓": "\\frac13 ", "⅔": "\\frac23 ", "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ", "γ": "\\gamma ",
        "λ": "\\lambda ", "μ": "\\mu ", "φ": "\\phi ", "ω": "\\omega ", "Δ": "\\Delta ", "∠": "\\angle ", "₀": "_0",
        "₁": "_1", "₂": "_2", "₃": "_3", "₄": "_4", "₅": "_5", "₆": "_6", "₇": "_7", "₈": "_8", "₉": "_9",
        "ℝ": "\\mathbb{R}", "€": "$", "£": "$", "¥": "$", "₹": "$", "\u00a0": " ", "\u2009": " ", "\u202f": " ",
        "\u3000": " ", "\u200b": "", "\ufeff": "", "，": ", ", "。": ".", "：": ":", "（": "(", "）": ")", "［": "[",
        "］": "]", "＝": "=", "＋": "+", "－": "-", "／": "/", "％": "%", "、": ", ", "；": ";", "⟨": "\\langle ",
        "⟩": "\\rangle ", "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"', "∣": "|", "⌊": "\\lfloor ",
        "⌋": "\\rfloor ", "⌈": "\\lceil ", "⌉": "\\rceil ", "…": "\\ldots ",
        **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
        **{chr(0xFF21 + at): chr(0x41 + at) for at in range(26)},
    }.items()
}  # fmt: skip

# Characters that are always raised or lowered; a run of them is one exponent or subscript.
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", "0123456789+-=()ni")
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₕₖₗₘₙₚₛₜᵢⱼ", "0123456789+-=()aeoxhklmnpstij")

# Plain words that are mathematics: "sqrt(2)", "pi/2", "log 5".
FUNCTIONS = frozenset(
    """sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp sqrt pi infty
    alpha beta gamma theta lambda phi omega gcd lcm""".split()
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
    """to of if on or and the not but for are was has had its our can may nor yet via now how who why let get got odd
    all any out few one two six ten off per yes""".split()
)

# A number followed by one of these is not that number: "5 or more", "between 3 and 4", "not 5".
NOT_UNITS = frozenset(
    """and or not no to more less than least most through up down between mod modulo base if for where when
    such that with either neither nor except over under above below approximately about plus minus times
    divided remainder even odd is are was be does do cannot can undefined any all some other others
    none never respectively but only and/or thousand million billion trillion hundred dozen squared cubed
    root half third quarter pi infinity lakh lakhs crore crores gross pair pairs couple couples kilo mega giga
    milli micro nano bc ad bce ce am pm doubled tripled twice thrice otherwise unless out short""".split()
    # parts and counts
    + """halves thirds quarters fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths
    ninth ninths tenth tenths twelfth twelfths hundredth hundredths thousandth thousandths millionth
    millionths tens hundreds thousands millions billions trillions dozens score factorial choose""".split()
    # directions of change, of signs, of space, of time
    + """increase increased decrease decreased increasing decreasing profit loss gain deficit
    surplus positive negative imaginary north south east west northeast northwest southeast
    southwest northward southward eastward westward right upward downward upwards downwards forward
    forwards backward backwards clockwise counterclockwise anticlockwise inward outward ahead behind before
    after earlier later ago early late noon midnight morning afternoon evening greater
    fewer""".split()
    # dates
    + """january february march april may june july august september october november december jan feb mar
    apr jun jul aug sept oct nov dec monday tuesday wednesday thursday friday saturday sunday""".split()
)

NUMBER_WORDS = {
    word: value
    for value, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen""".split()
    )
} | {word: 20 + 10 * at for at, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split())}
POWERS_OF_TEN = {
    "hundred": 2, "thousand": 3, "lakh": 5, "million": 6, "crore": 7, "billion": 9, "trillion": 12,
}  # fmt: skip

ROMAN = frozenset("IVXLCDM")
ROUGHLY = frozenset("approximately about roughly approx around nearly circa".split())
LISTING = frozenset({'"and', '"or'})

RELATIONS = frozenset(("=", "<", ">", "\\le", "\\ge", "\\ne", "\\approx", "\\in", "\\sim", "\\equiv"))
ORDER = frozenset(("<", ">", "\\le", "\\ge"))


# -- brackets


OPEN = frozenset(("(", "[", "{", "\\{", "\\langle", "\\lfloor", "\\lceil", "\\begin"))
CLOSE = frozenset((")", "]", "}", "\\}", "\\rangle", "\\rfloor", "\\rceil", "\\end"))


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


WORD = '"'  # the first character of a word token; no other token starts with it

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
    if token in NAME_COMMANDS:
        inner, after = _braced(raw, at)
        letters = "".join(inner).strip()
        if len(letters) > 1:
            out.append(f"\\mathbf{{{token[1:]} {letters}}}")
            return after
    if token in FONTS:
        inner, after = _braced(raw, at)
        letters = "".join(inner).strip()
        if letters in ("i", "e"):  # in bold a vector or a name, not the imaginary unit or Euler's number
            out.append(f"\\mathbf{{{letters}}}")
            return after
        if len(letters) == 1:
            out.append(letters)
            return after
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
        if token.isspace() or token in "{}$" or token in IGNORED:
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


def is_numeral(token: str) -> bool:
    return token[:1] in _DIGITS or (token[:1] == "." and len(token) > 1)
