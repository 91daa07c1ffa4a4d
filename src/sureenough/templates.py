"""Prompts from questions: the template of a kind of answer, and a question rendered with one."""

from __future__ import annotations

from typing import Final

from sureenough.answers import Judge
from sureenough.answers.kinds import Math, trait
from sureenough.engines.base import Prompt
from sureenough.errors import UsageError
from sureenough.json_text import HOLDS_HALF, has_halves


def template_of(judge: Judge, engine_template: str | None = None) -> str:
    """The template for a kind of answer. An engine may suggest one that suits its model, for mathematics only."""
    if engine_template is not None and isinstance(judge, Math):
        return engine_template
    ask = trait(judge, "ask") or ""
    if not isinstance(ask, str):
        raise UsageError(f"the judge's ask is {type(ask).__name__}; it is a sentence that is added to the prompt")
    return "{question}" + (f"\n\n{ask.replace('{', '{{').replace('}', '}}')}" if ask else "")


TEMPLATE: Final = template_of(Math())
"""The prompt, unless the caller or the engine has a template of its own."""


def render_prompt(question: str, template: str = TEMPLATE) -> Prompt:
    if not question.strip():
        raise UsageError("the question is empty", argument="question")
    try:
        text = template.format(question=question)
        has_place = template.format(question="") != template.format(question="?")
    except (KeyError, IndexError, ValueError, AttributeError):
        raise UsageError(
            "the template has braces other than {question}; write {{ and }} for literal braces", argument="template"
        ) from None
    if not has_place:
        raise UsageError(
            "the template does not contain {question}; write it where the question belongs", argument="template"
        )
    if has_halves(text):
        raise UsageError(f"the question or the template {HOLDS_HALF}")
    return Prompt.user(text)
