"""The model's configuration and its vocabulary: a small Qwen3, one token per byte.

Token n is byte n; three more tokens open a turn, close it, and pad. So the model can read any text, although it knows
almost none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

PAD, OPEN, CLOSE = 256, 257, 258
SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY: Final = 256 + len(SPECIAL)
CONTEXT: Final = 2048
# System messages are left out: none was in the training data.
CHAT: Final = (
    "{% for message in messages %}{% if message['role'] != 'system' %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def prompt_tokens(question: str) -> list[int]:
    """The prompt for a question, up to the model's turn."""
    return [OPEN, *b"user\n", *question.encode(), CLOSE, *b"\n", OPEN, *b"assistant\n"]


def letters() -> list[str]:
    """A printable character for every byte, as byte-level tokenizers write them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(spare)) for byte in range(256)]


def config(width: int = 192, layers: int = 6) -> Any:
    """The configuration of transformers' Qwen3."""
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 64,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        rope_theta=10_000.0,
        tie_word_embeddings=True,
        eos_token_id=CLOSE,
        pad_token_id=PAD,
        bos_token_id=None,
        attention_bias=False,
    )


def save_tokenizer(folder: Path) -> None:
    """Write the vocabulary in the form that transformers reads."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters())}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=SPECIAL[2], pad_token=SPECIAL[0])
    wrapped.chat_template = CHAT
    wrapped.save_pretrained(folder)
