"""The text of a whole reply, decoded at once.

vLLM's API server decodes token by token, as a stream needs it, even if all tokens of a path arrive together at its end
(`whole_replies`). That takes several times as long as decoding them in one call, which gives the same text if all its
characters are complete.
"""

from __future__ import annotations

from copy import deepcopy
from importlib import import_module
from typing import Any, Final

FEWEST: Final = 16
"""Tokens that are worth a call of their own."""
INCOMPLETE: Final = "\N{REPLACEMENT CHARACTER}"


def decode_whole_texts() -> None:
    """Make vLLM's detokenizer decode many tokens at once, if this vLLM has the one that we know."""
    try:
        module: Any = import_module("vllm.v1.engine.detokenizer")
        original = module.FastIncrementalDetokenizer
    except (ImportError, AttributeError):
        return
    if not issubclass(original, WholeTexts):
        module.FastIncrementalDetokenizer = type(original.__name__, (WholeTexts, original), {})


class WholeTexts:
    """A mixin before vLLM's detokenizer, which calls `update` with the new tokens of a request."""

    stop: Any
    token_ids: list[int]
    output_text: str
    tokenizer: Any
    stream: Any
    spaces_between_special_tokens: bool

    def update(self, new_token_ids: list[int], stop_terminated: bool) -> Any:
        """Decode many tokens at once, except one that stops the request, which vLLM may leave out of the text."""
        if len(new_token_ids) >= FEWEST and not self.stop and self.spaces_between_special_tokens:
            together = len(new_token_ids) - bool(stop_terminated)
            text = self._decode(new_token_ids[:together])
            if text is not None:
                self.token_ids.extend(new_token_ids[:together])
                self.output_text += text
                new_token_ids = new_token_ids[together:]
        return super().update(new_token_ids, stop_terminated)  # type: ignore[misc]

    def _decode(self, ids: list[int]) -> str | None:
        """The text that these tokens add; None if vLLM must decode them one by one."""
        try:
            stream = deepcopy(self.stream)  # the original stays as it is if this fails, even a replacement in Python
            text: str | None = stream.step(self.tokenizer, ids)
        except Exception:  # tokenizers has no errors of its own types
            return None
        if text is None or INCOMPLETE in text:
            return None
        self.stream = stream
        return text
