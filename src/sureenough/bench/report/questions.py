"""Single questions on the report page: what every strategy did on them, and what their paths answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from sureenough.bench.result import AnswerGroup, PoolQuestions, QuestionAnswers, StrategyOnQuestion

MOST_ANSWERS: Final = 20


def question_list(pool: PoolQuestions) -> str:
    number = f"{len(pool.questions)} of {pool.total}" if len(pool.questions) < pool.total else f"All {pool.total}"
    hint = f"sureenough explain {pool.file} -q ID -s STRATEGY"
    questions = "".join(_question(pool.strategies, *one) for one in pool.questions)
    return (
        f"<details><summary>Single questions of {escape(pool.dataset)}, {escape(pool.model)}, and their paths</summary>"
        f'<p class="muted">{number} questions, first those on which the strategies differ most. '
        f"<code>{escape(hint)}</code> explains what a strategy decided on one of them.</p>{questions}</details>"
    )


def _question(strategies: Sequence[str], question: QuestionAnswers, done: Sequence[StrategyOnQuestion]) -> str:
    gold = f", gold answer {_short(question.gold)}" if question.gold is not None else ""
    paths = sum(len(group.paths) for group in question.answers)
    rows = "".join(
        f'<tr><td class="text">{escape(name)}</td><td>{_share(one)}</td><td>{one.tokens:,.0f}</td></tr>'
        for name, one in zip(strategies, done, strict=True)
    )
    head = "right" if question.gold is not None else "agrees with sc"
    answers = "".join(map(_answer, question.answers[:MOST_ANSWERS]))
    left_out = len(question.answers) - MOST_ANSWERS
    more = f'<p class="muted">and {left_out} more answers</p>' if left_out > 0 else ""
    return (
        f"<details><summary>{escape(_short(question.id))}{escape(gold)}: {paths} paths, {len(question.answers)} "
        f'answers; {escape(_changed(strategies, done))}</summary><div class="pair">'
        f'<table><thead><tr><th class="text">strategy</th><th>{head}, %</th><th>tokens</th></tr></thead>'
        f'<tbody>{rows}</tbody></table><div><table><thead><tr><th class="text">answer</th><th>right</th><th>paths</th>'
        f'<th>mean tokens</th><th class="text">path numbers</th></tr></thead><tbody>{answers}</tbody></table>{more}'
        "</div></div></details>"
    )


def _changed(strategies: Sequence[str], done: Sequence[StrategyOnQuestion]) -> str:
    """How often the first strategy is right, and those that differ from it."""
    texts = [f"{name} {_share(one)} %" for name, one in zip(strategies, done, strict=True)]
    differing = [text for text, one in zip(texts, done, strict=True) if _share(one) != _share(done[0])]
    return f"{texts[0]}, but {', '.join(differing)}" if differing else f"all strategies {_share(done[0])} %"


def _share(one: StrategyOnQuestion) -> str:
    return f"{100 * (one.agreed if one.right is None else one.right):.0f}"


def _answer(group: AnswerGroup) -> str:
    right = "–" if group.right is None else "yes" if group.right else "no"
    answer = "no answer" if group.answer is None else _short(group.answer)
    numbers = _short(", ".join(_ranges(sorted(group.paths))), 120)
    mean = sum(group.tokens) / len(group.tokens)
    return (
        f'<tr><td class="text">{escape(answer)}</td><td>{right}</td><td>{len(group.paths)}</td><td>{mean:,.0f}</td>'
        f'<td class="text">{numbers}</td></tr>'
    )


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """0–3, 7: runs of consecutive numbers."""
    start = 0
    for i, number in enumerate(numbers):
        if i + 1 == len(numbers) or numbers[i + 1] != number + 1:
            first = numbers[start]
            yield str(number) if first == number else f"{first}–{number}"
            start = i + 1


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
