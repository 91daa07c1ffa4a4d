"""Answers that hang, crash or take over graders: towers, explosions, floods, payloads."""

from __future__ import annotations

TOWERS = [
    "9^{9^{9^{9}}}", "9^9^9^9", "2^{2^{2^{2^{2^{2}}}}}", r"x^{x^{x^{x^{x}}}}", "10^{10^{100}}",
    "10^{-10^{100}}", r"\left(\left(9^{99}\right)^{99}\right)^{99}", "2^{100000000}", r"(1/3)^{99999999}",
    r"99999^{99999}", "e^{e^{e^{e^{10}}}}", r"{10}^{{10}^{{10}^{10}}}", r"\sqrt[99999999]{2}",
    r"2^{-2^{-2^{-2^{100}}}}",
]  # fmt: skip
EXPLOSIONS = [
    "100000000!", "((9!)!)!", "9!!!!!!!!", r"\binom{10^{9}}{5 \cdot 10^{8}}",
    r"\binom{\binom{99}{9}}{\binom{99}{8}}", "(x+1)^{5000}", "(x+y+z+w)^{60}", "((((x+1)^9+1)^9+1)^9+1)^9",
    r"\frac{(a+b+c)^{40}}{(d+e+f)^{40}}", "(x+1)^{5000}-(1+x)^{5000}",
    "*".join(f"(x_{{{n}}}+y_{{{n}}})" for n in range(60)),
    "+".join(f"\\frac{{1}}{{x+{n}}}" for n in range(150)), r"\sqrt{" * 60 + "2" + "}" * 60,
    r"\sqrt" * 400 + "2", r"\frac{1}{" * 100 + "x" + "}" * 100, r"\sin" * 300 + "x",
    r"\sqrt{(a+b)(" * 22 + "c" + "+d)}" * 22, r"\gcd(10^{100}, 9^{99})", r"\sum_{n=1}^{10^{12}} n^{n}",
    r"\int_0^{\infty} x^{x^x} dx", r"\prod_{k=1}^{999999} k^k", r"\lim_{n\to\infty} n^{n^n}",
]  # fmt: skip
FLOODS = [
    "%" * 1900, "5" + "%" * 1900, "!" * 1900, "^" * 1900, "x^" * 900 + "x", "5" + "^\\circ" * 300, "'" * 1900,
    "(" * 200 + "x" + ")" * 200, "{" * 900 + "1" + "}" * 900, "[" * 500 + "1" + "]" * 500, "(" * 5000,
    "7" * 1_000_000, "1," * 500_000, "x+" * 35_000 + "x", "the answer is " * 5_000, "\\frac" * 14_000,
    "\\text{" * 300, "-" * 1900 + "1", "|" * 1500, "\\begin{pmatrix}" * 100, "\\pm 1" * 300,
    "0." + "3" * 1_000_000, "\\{" * 600 + "\\}" * 600, "1 " * 900, "x=" * 900 + "x", ",".join("x" * 900),
    "1.0e999999999", "\\mathbf{" * 240 + "x" + "}" * 240, "\u0660" * 1000, "\U0001d7d8" * 500,
    "\ud800" * 50, "\x00" * 100,
]  # fmt: skip
PAYLOADS = [
    "__import__('os').system('touch {})", "__import__('pathlib').Path('{}').touch()", "open('{}', 'w')",
    "().__class__.__bases__[0].__subclasses__()", "exec(\"open('{}','w')\")", "eval('open(\"{}\",\"w\")')",
    "lambda: open('{}','w')", r"\text{{__import__('pathlib').Path('{}').touch()}}",
    r"1 + __import__('pathlib').Path('{}').touch()", "x.__class__", "[x for x in open('{}','w')]",
    "f'{{open(\"{}\",\"w\")}}'", "S('__import__(\"os\")')", r"\input{/etc/passwd}", r"\write18{touch {}}",
    "$(touch {})", "`touch {}`", "; touch {} ;",
]  # fmt: skip

HOSTILE = [*TOWERS, *EXPLOSIONS, *FLOODS]
