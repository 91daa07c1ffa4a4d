"""Kinds of answers: what each reads from a reply, and which answers it calls the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sureenough as se
from sureenough.answers import resolve_kind
from sureenough.answers.json_values import last_json, prepared_schema, validates
from sureenough.answers.kinds import BUILTIN, Json, Judge, LetterChoice, for_question, offered_letters
from sureenough.errors import UsageError

KINDS = [
    *BUILTIN, "text:labels=yes,no,not sure", "number:rel=1e-2", "number:abs=0.5", "date:order=dmy", "list:of=number",
    "set:of=date", "json:fields=a,b", "math:percent=1,rounding=1,decimal_comma=1", r"regex:\d+",
]  # fmt: skip

READ: list[tuple[str, str, str | None]] = [
    ("text", "I think so.\n\nAnswer: **Positive**.", "Positive"),
    ("text", "some thoughts\npositive", "positive"),
    ("text", r"\boxed{\text{New York}}", "New York"),
    ("text", "The answer is: 'a b'", "a b"),
    ("text", "<answer>blue</answer>", "blue"),
    ("text", "Answer:\n\nred\nas I said", "red"),
    ("text", "<think>Answer: red</think>Answer: blue", "blue"),
    ("text", "<think>Answer: red", None),
    ("text", r"\boxed{}", None),
    ("text", " \n ", None),
    ("text:labels=positive,negative", "The sentiment is positive.", "positive"),
    ("text:labels=positive,negative", "Answer: Negative", "negative"),
    ("text:labels=positive,negative", "It is not positive.", None),
    ("text:labels=positive,negative", "It is positive or negative.", None),
    ("text:labels=positive,negative", "It is nonpositive.", None),
    ("text:labels=sure,not sure", "I am not sure.", "not sure"),
    ("exact", "Answer:  a  B ", "a  B"),
    ("number", "The total is $1,234.50.", "1,234.50"),
    ("number", "3 + 4 = 7", "7"),
    ("number", "Answer: 5 %", "5%"),
    ("number", "Answer: −3e-2 apples", "-3e-2"),
    ("number", r"\boxed{\frac{1}{2}}", "1/2"),
    ("number", "Answer: 3/4", "3/4"),
    ("number", "Answer: 3 or 4", None),
    ("number", "Answer: 1,5", None),
    ("number", "Answer: 2024-01-02", None),
    ("number", "Answer: 10:30", None),
    ("number", "Answer: 1/0", None),
    ("number", "Answer: none", None),
    ("number", f"Answer: {'9' * 5000}", None),
    ("number", "Answer: 1e999999999", None),
    ("date", "It was on January 2nd, 2024.", "January 2nd, 2024"),
    ("date", "Answer: 2 Jan. 2024", "2 Jan. 2024"),
    ("date", "Answer: 2024-01-02T10:00:00Z", "2024-01-02"),
    ("date", "Answer: 2024年1月2日", "2024年1月2日"),
    ("date", "Answer: from 2024-01-02 to 2024-01-03", None),
    ("date", "Answer: 2024-02-30", None),
    ("date", "Answer: 2021", None),
    ("date", "Answer: 01/02/24", None),
    ("list", "Answer: a, b, and c", "a, b, and c"),
    ("list", "They are:\n\n- x\n- y", "- x\n- y"),
    ("set", r"\boxed{\{b, a\}}", r"\{b, a\}"),
    ("json", 'Sure: {"b": 1, "a": [1]} as asked', '{"b": 1, "a": [1]}'),
    ("json", 'Before {"a": 1}\n```json\n{"x": 2}\n```\nand {"z": 3}', '{"x": 2}'),
    ("json", "  42 ", "42"),
    ("json", 'in [0, 1) it is {"a": 2}', '{"a": 2}'),
    ("json", 'It is {"a": 2}, as in [1].', '{"a": 2}'),
    ("json", '{"items": [{"a": 1}, {"a": 2}], "tot', None),
    ("json", '{"a": 1 "b": {"x": 2}}', None),
    ("json", '{"a": 1, "a": 2}', None),
    ("json", "[NaN]", None),
    ("json", "[" * 100_000, None),
    ("json", "no JSON here", None),
    ("json:fields=total", '{"total": 5, "note": "x"}', '{"total": 5, "note": "x"}'),
    ("json:fields=total", '{"sum": 5}', None),
    ("regex:total: ([0-9]+)", "total: 5, total: 7", "7"),
    ("regex:total: ([0-9]+)", "sum: 7", None),
    ("choice", "The answer is (J).", "J"),
    ("choice:letters=ABC", "The answer is (J).", None),
    ("math:fallback=last-number", "It is probably 7.", "7"),
]


@pytest.mark.parametrize(("kind", "text", "answer"), READ)
def test_what_is_read(kind: str, text: str, answer: str | None) -> None:
    assert resolve_kind(kind).extract(text) == answer


SAME: list[tuple[str, str, str, bool]] = [
    ("text", "New  York", "new york", True), ("text", "ﬁne", "fine", True), ("text", "Straße", "STRASSE", True),
    ("text", "007", "7", False), ("text", "a, b", "b, a", False), ("text", "2024-01-02", "2021", False),
    ("text", "O(n)", "n O", False), ("exact", "a b", "a  b", False), ("exact", "007", "7", False),
    ("exact", "A", "a", False), ("number", "007", "7", True), ("number", "1,000", "1e3", True),
    ("number", "5%", "5", False), ("number", "0.5", "1/2", True), ("number", "2024-01-02", "2021", False),
    ("number:rel=1e-3", "1000", "1000.9", True), ("number:rel=1e-3", "1000", "1002", False),
    ("number:abs=0.5", "1", "1.5", True), ("number:abs=0.5", "1", "1.51", False),
    ("date", "2024-01-02", "January 2, 2024", True), ("date", "2024-01-02", "2021", False),
    ("date", "2024-01-02", "2nd of January 2024", True), ("date", "2024/1/2", "02.01.2024", True),
    ("date", "01/02/2024", "1/2/2024", True), ("date", "01/02/2024", "02/01/2024", False),
    ("date", "01/02/2024", "2024-01-02", False), ("date", "01/02/2024", "2024-02-01", False),
    ("date", "13/02/2024", "2024-02-13", True), ("date", "02/02/2024", "2024-02-02", True),
    ("date:order=dmy", "01/02/2024", "2024-02-01", True), ("date:order=mdy", "01/02/2024", "2024-01-02", True),
    ("list", "a, b", "b, a", False), ("set", "a, b", "b, a", True), ("set", "a, b, b", "a, b", True),
    ("list", "a, b", "- A\n- b", True), ("list", '["a", "b"]', "(a, b)", True), ("list", "a,b", "a; b", True),
    ("list:of=number", "1,000, 2", "1000, 2.0", True), ("list", "007", "7", False),
    ("set:of=date", "2024-01-02, 2 Feb 2024", "2024-02-02, 2 Jan 2024", True),
    ("json", '{"a": 1, "b": 2.0}', '{"b": 2, "a": 1e0}', True), ("json", "[1, 2]", "[2, 1]", False),
    ("json", "1", "true", False), ("json", '"1"', "1", False), ("json", "-0.0", "0", True),
    ("json", '"\\u0061"', '"a"', True), ("json", "1e400", "1e401", False),
    ("json:fields=total", '{"total": 5, "x": 1}', '{"total": 5.0, "x": 2}', True),
    ("json:fields=total,currency", '{"total": 5}', '{"total": 5, "currency": null}', False),
    ("choice", "a", "A", True), ("choice", "A", "B", False), ("math", "O(n)", "n^2", False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "one", "two", "same"), SAME)
def test_which_answers_are_the_same(kind: str, one: str, two: str, same: bool) -> None:
    judge = resolve_kind(kind)
    for pair in ([one, two], [two, one]):
        assert (len(set(judge.classes(pair))) == 1) is same
    assert judge.grade(one, two) is same
    assert judge.grade(two, one) is same


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("maths", "did you mean 'math'.*known: math, choice, text, exact, number, date, list, set, json"),
        ("", "known: math"),
        ("number:tol=1", "number has no option 'tol'; known: rel, abs"),
        ("number:rel=x", "rel is a number"),
        ("number:rel=-1", "at least 0"),
        ("math:percent=2", "percent is 1 or 0"),
        ("date:order=ymd", "unknown or dmy or mdy"),
        ("text:labels=yes", "two or more different labels"),
        ("text:labels=yes,Yes", "two or more different labels"),
        ("list:of=json", "text or exact or number or date"),
        ("choice:letters=AA", "different letters"),
        ("exact:case=1", "exact takes no options"),
        ("regex:(", "not a regular expression of RE2"),
        (r"regex:(a)\1", "not a regular expression of RE2"),
        ("nowhere:thing", "No module named 'nowhere'.*PYTHONPATH"),
        ("os:environ", "a judge with extract, classes and grade"),
        ("x" * 600, "at most 500"),
    ],
)
def test_unknown_kinds_and_options_are_refused_with_the_known_ones(kind: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        resolve_kind(kind)


@pytest.mark.parametrize("kind", ["regex:a", "tests.answers.test_kinds:Sql", "os:environ"])
def test_clients_and_files_name_registered_kinds_only(kind: str) -> None:
    with pytest.raises(UsageError, match="unknown kind of answer"):
        resolve_kind(kind, registered_only=True)


# -- laws of every kind

WORDS = st.sampled_from(
    ["Answer: ", "\\boxed{", "}", "{", "[", "]", '"', ",", ";", ":", "1", "007", "2024-01-02", "01/02/2024", "a", "b",
     "5%", "\n- ", "\n", "```", "json", "\\", "<think>", "</think>", "true", "null", "e9", ".", "-", "/", "not ", "yes",
     "no", "ﬁ", "İ", "\ud800", "\u0301", "A", "J", ") ", "(", "$", "**", "answer is ", "=", "9" * 50]
)  # fmt: skip
TEXTS = st.one_of(st.lists(WORDS, max_size=14).map("".join), st.text(max_size=40))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6), order=st.randoms())
def test_the_laws_of_a_kind(kind: str, texts: list[str], order: random.Random) -> None:
    """Whatever the text: no exception, symmetric, classes that do not depend on the order, extracted or not."""
    judge = for_question(resolve_kind(kind))
    read = [answer for answer in map(judge.extract, texts) if answer is not None]
    assert all(isinstance(answer, str) and answer for answer in read)
    for answers in (texts, read):
        classes = judge.classes(answers)
        shuffled = list(range(len(answers)))
        order.shuffle(shuffled)
        again = dict(zip(shuffled, judge.classes([answers[i] for i in shuffled]), strict=True))
        for i in range(len(answers)):
            for j in range(i):
                assert (classes[i] == classes[j]) == (again[i] == again[j])
                pair = judge.classes([answers[i], answers[j]]), judge.classes([answers[j], answers[i]])
                assert (pair[0][0] == pair[0][1]) == (pair[1][0] == pair[1][1])
                if answers[i] == answers[j] and answers[i].strip():
                    assert classes[i] == classes[j]
    for one in texts:
        assert isinstance(judge.grade(one, texts[0]), bool)


LONG = 30_000
REPEATED = [
    "1,", "a, ", "[", "{", '{"', '{"a":', '{"a": 1} ', "[1) ", "```", "Answer: ", "answer", "- a\n", "1 Jan ",
    "2024-01-02 ", "\\boxed{", "(A) ", "1", "e", ".", "-", " ", "\n", "yes ", "\\text{", "**", "[1, ", "```\n",
    "\u0301\u0315", "\\boxed{\\boxed{1}", "\\boxed 5 ", "the answer is ", "answer is $", "<think>", "</think>",
    "<|channel|>", "\\", "#### ", "答案", "选", "option a is ", "\\boxed{1} and ", "the answer is a b c d e ", "$",
    "answer:**", "1 feet ", "answer:" + " " * LONG, "the answer is" + "\t" * LONG, "\\boxed{" + " " * LONG,
    "{" * LONG + "}" * LONG, "<|channel|>" + " " * LONG + "final ", "answer: $" + "\\" * LONG,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_reading_ends(kind: str) -> None:
    """Reading takes linear time: with quadratic work, a text of this length would take many minutes."""
    judge = resolve_kind(kind)
    for unit in REPEATED:
        text = unit * (2 * LONG // len(unit)) + "5"
        judge.extract(text)
        judge.classes([text, text + "x"])


@given(st.lists(st.integers(-50, 50), max_size=20))
def test_numbers_within_a_tolerance_are_never_chained(values: list[int]) -> None:
    answers = [str(value) for value in values]
    classes = resolve_kind("number:abs=3").classes(answers)
    for number in set(classes):
        members = [Fraction(answer) for answer, one in zip(answers, classes, strict=True) if one == number]
        assert max(members) - min(members) <= 3


# -- choice


def test_letters_come_from_the_question() -> None:
    question = "Which one?\nA) red\nB) green\n(C) blue"
    assert offered_letters(question) == "ABC"
    judge = for_question(LetterChoice(), question)
    assert (judge.extract("Answer: C"), judge.extract("Answer: D")) == ("C", None)
    assert offered_letters("Is vitamin C good?") == ""
    assert offered_letters("(A) x (B) y (C) z (D) u (E) v (F) w (G) a (H) b (I) c (J) d") == "ABCDEFGHIJ"


# -- JSON


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "object", "required": ["a"]}, '{"a": 1}', "{}"),
        ({"type": ["integer", "null"]}, "1.0", "1.5"),
        ({"properties": {"a": {"enum": ["x", 1]}}, "additionalProperties": False}, '{"a": 1.0}', '{"b": 1}'),
        ({"items": {"type": "string"}, "minItems": 1, "uniqueItems": True}, '["a", "b"]', '["a", "a"]'),
        ({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "number", "minimum": 5}]}, '"ab"', '"abc"'),
        ({"oneOf": [{"minimum": 5}, {"maximum": 9}]}, "10", "7"),
        ({"not": {"const": None}}, "0", "null"),
        ({"multipleOf": 0.1}, "0.3", "0.35"),
        ({"type": "string", "pattern": "^a+$"}, '"aaa"', '"ab"'),
        ({"prefixItems": [{"type": "integer"}], "items": False}, "[1]", "[1, 2]"),
        ({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "additionalProperties": {"$ref": "#"}}}},
         '{"a": {"b": {}}}', '{"a": {"b": 1}}'),
    ],
)  # fmt: skip
def test_a_value_that_does_not_match_the_schema_is_not_an_answer(schema: dict[str, Any], good: str, bad: str) -> None:
    judge = Json(schema=prepared_schema(schema))
    assert judge.extract(good) == good
    assert judge.extract(bad) is None


def nested_schema(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"if": {}}, "keyword if"), ({"type": "text"}, "type"), ({"properties": []}, "properties"), ([], "neither"),
        ({"$ref": "http://x/y"}, "inside it"), ({"$ref": "#/$defs/x"}, "does not define"),
        ({"minimum": "1"}, "minimum"),
        ({"items": {"pattern": "(?=a)"}}, "RE2"), ({"multipleOf": 0}, "multipleOf"), ({"required": [1]}, "required"),
        ({"enum": list(range(100_000))}, "too large"), ({"description": "x" * 300_000}, "too large"),
        ({"properties": {"x" * 300_000: True}}, "too large"), (nested_schema(200), "deeper than 100"),
        ({"pattern": r"(?i)\pL{300}"}, "too large"), ({"pattern": "a" * 2_000}, "2,000 characters"),
        ({"allOf": [{"pattern": f"a{n}"} for n in range(60)]}, "60 patterns"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_checked_is_refused(schema: Any, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        prepared_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}] * 9}, "b": {"anyOf": [{"$ref": "#/$defs/a"}] * 9}},
         "$ref": "#/$defs/a"},
    ],
)  # fmt: skip
def test_a_schema_without_an_end_matches_nothing(schema: dict[str, Any]) -> None:
    assert Json(schema=schema).extract("1") is None


NAMES = [f"name {n}" for n in range(1_000)]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"enum": ["other"]}, NAMES), ({"const": NAMES[:1]}, NAMES), ({"uniqueItems": True}, NAMES), ({}, NAMES),
        ({"multipleOf": 0.1}, Decimal("1" * 30_000)), ({"pattern": r"x(\pL+\pN*){10}$"}, "a" * 2_000),
        ({"required": NAMES}, {}), ({"description": "x" * 30_000}, {}), (dict.fromkeys(NAMES, 1), {}),
    ],
)  # fmt: skip
def test_what_a_step_of_validation_costs_is_counted(part: dict[str, Any], value: Any) -> None:
    schema = prepared_schema(
        {"anyOf": [{"allOf": [{"$ref": "#/$defs/part"}, False]}] * 300 + [{}], "$defs": {"part": part}}
    )
    assert not validates(value, schema)
    assert validates(value, prepared_schema({"anyOf": [part, {}]})), "once is not too much"


def test_a_reference_may_lead_into_a_constant() -> None:
    judge = Json(
        schema=prepared_schema(
            {"anyOf": [{"const": {"enum": [1]}}, {"$ref": "#/x/const"}], "x": {"const": {"enum": [2]}}}
        )
    )
    assert [judge.extract(text) for text in ('{"enum": [1]}', "2", "1")] == ['{"enum": [1]}', "2", None]


def test_the_last_value_is_found_in_a_long_text() -> None:
    assert last_json('{"a": ' * 50 + "1" + "}" * 50 + ' then {"b": "}"}') == '{"b": "}"}'


# -- judges of one's own


class Sql:
    """Ten lines that make a judge: queries are the same without case, space and the semicolon."""

    ask = "End with one SQL query."

    def extract(self, text: str) -> str | None:
        return text.rpartition("```sql")[2].rpartition("```")[0].strip() or None

    def classes(self, answers: Sequence[str]) -> list[str]:
        return [" ".join(answer.lower().rstrip("; ").split()) for answer in answers]


SQL = se.judge(extract=Sql().extract, key=lambda answer: " ".join(answer.lower().rstrip("; ").split()))
PAIR = (Sql().extract, lambda one, two: one.lower() == two.lower())


@pytest.mark.parametrize("kind", [Sql, Sql(), SQL, PAIR, *(f"{__name__}:{name}" for name in ("Sql", "SQL", "PAIR"))])
def test_own_judges_in_any_form(kind: Any) -> None:
    judge = resolve_kind(kind)
    assert judge.extract("Here:\n```sql\nSELECT 1\n```") == "SELECT 1"
    assert len(set(judge.classes(["SELECT 1", "select 1", "select 2"]))) == 2
    assert judge.grade("SELECT 1", "select 1") is True
    assert judge.grade("SELECT 1", "select 2") is False


def test_classes_by_a_relation_do_not_depend_on_the_order() -> None:
    close = se.judge(same=lambda one, two: abs(len(one) - len(two)) <= 1)
    answers = ["a", "bb", "ccc", "dddd"]
    assert close.classes(answers) == [0, 0, 1, 1]
    assert close.classes(answers[::-1]) == [0, 0, 1, 1]


@pytest.mark.parametrize("make", [
    lambda: se.judge(same=str.__eq__, key=str), lambda: se.judge(extract="x"),  # type: ignore[arg-type]
    lambda: resolve_kind(5), lambda: resolve_kind(int), lambda: resolve_kind((str, "x")),
])  # fmt: skip
def test_what_is_not_a_judge_is_refused(make: Callable[[], Judge]) -> None:
    with pytest.raises(UsageError):
        make()
