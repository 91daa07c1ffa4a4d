"""The words and commands that answers are written in: tables, no logic."""

from __future__ import annotations

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
