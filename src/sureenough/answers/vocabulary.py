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
    \overrightarrow \underline \pmb \boxed \fbox""".split()
)
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

UNICODE = {
    ord(char): text
    for char, text in {
        "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": "\\times ", "⋅": "\\cdot ", "·": "\\cdot ",
        "∙": "\\cdot ", "÷": "/", "⁄": "/", "∕": "/", "π": "\\pi ", "∞": "\\infty ", "√": "\\sqrt ",
        "°": "^\\circ ",
        "²": "^2", "³": "^3", "¹": "^1", "⁴": "^4", "⁵": "^5", "⁶": "^6", "⁷": "^7", "⁸": "^8", "⁹": "^9",
        "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "≈": "\\approx ", "∪": "\\cup ", "∩": "\\cap ",
        "∈": "\\in ",
        "±": "\\pm ", "∓": "\\mp ", "∅": "\\emptyset ", "½": "\\frac12 ", "¼": "\\frac14 ",
        "¾": "\\frac34 ",
        "⅓": "\\frac13 ", "⅔": "\\frac23 ", "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ",
        "γ": "\\gamma ",
        "λ": "\\lambda ", "μ": "\\mu ", "φ": "\\phi ", "ω": "\\omega ", "Δ": "\\Delta ", "∠": "\\angle ",
        "₀": "_0", "₁": "_1", "₂": "_2", "₃": "_3", "₄": "_4", "₅": "_5", "₆": "_6", "₇": "_7",
        "₈": "_8", "₉": "_9",
        "ℝ": "\\mathbb{R}", "€": "$", "£": "$", "¥": "$", "₹": "$", "\u00a0": " ", "\u2009": " ",
        "\u202f": " ",
        "\u3000": " ", "\u200b": "", "\ufeff": "", "，": ", ", "。": ".", "：": ":", "（": "(", "）": ")",
        "［": "[", "］": "]", "＝": "=", "＋": "+", "－": "-", "／": "/", "％": "%", "、": ", ", "；": ";",
        "⟨": "\\langle ", "⟩": "\\rangle ", "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"', "∣": "|",
        "⌊": "\\lfloor ", "⌋": "\\rfloor ", "⌈": "\\lceil ", "⌉": "\\rceil ", "…": "\\ldots ",
        **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
        **{chr(0xFF21 + at): chr(0x41 + at) for at in range(26)},
    }.items()
}  # fmt: skip

# Plain words that are mathematics: "sqrt(2)", "pi/2", "log 5".
FUNCTIONS = frozenset(
    """sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp sqrt pi infty
    alpha beta gamma theta lambda phi omega""".split()
)

# Words and upright letters that stand for something in mathematics, whatever font they are in.
NAMED = {"infinity": r"\infty", "inf": r"\infty", "i": "i", "e": "e"}

# Units short enough to be mistaken for a product of letters.
UNITS = frozenset(
    """cm mm km dm nm kg mg ml ft yd mi lb lbs oz hr hrs min mins sec secs mph kph kmh sq cu deg rad rads
    rpm usd eur gbp inr aud mol hz khz mhz kw kwh kj kpa kn ev psi pts pt ohm ohms day days gal
    and or the pct no yes per""".split()
)

# A number followed by one of these is not that number: "5 or more", "between 3 and 4", "not 5".
NOT_UNITS = frozenset(
    """and or not no to more less than least most through up down between mod modulo base if for where when
    such that with either neither nor except over under above below approximately about plus minus times
    divided remainder even odd is are was be does do cannot can undefined any all some other others
    none never respectively but only and/or thousand million billion trillion hundred dozen squared cubed
    root half third quarter pi infinity""".split()
)

ROUGHLY = frozenset("approximately about roughly approx around nearly circa".split())
LISTING = frozenset({'"and', '"or'})
