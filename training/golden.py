"""The texts of the shipped model at temperature 0, by transformers: `python training/golden.py FILE`.

The tests compare what llama.cpp generates from the GGUF file with these texts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from arithmetic import LEVELS, generate
from export import SHIPPED, to_folder
from shape import CLOSE
from transformers import AutoTokenizer, Qwen3ForCausalLM

EACH = 4


@torch.inference_mode()
def greedy(model: Any, prompt: list[int], most: int = 800) -> list[int]:
    """Greedy decoding, until the model closes its turn."""
    out = model(input_ids=torch.tensor([prompt]), use_cache=True)
    tokens: list[int] = []
    while len(tokens) < most:
        tokens.append(int(out.logits[0, -1].argmax()))
        if tokens[-1] == CLOSE:
            return tokens[:-1]
        out = model(input_ids=torch.tensor([tokens[-1:]]), past_key_values=out.past_key_values, use_cache=True)
    return tokens


def main() -> None:
    """Write the texts of twenty problems of all levels and families."""
    with TemporaryDirectory() as folder:
        to_folder(SHIPPED, Path(folder))
        model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = []
    for problem in [problem for level in LEVELS for problem in generate(level, seed=3, n=EACH)]:
        turn = [{"role": "user", "content": problem.question}]
        prompt = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=True, return_dict=False)
        text = tokenizer.decode(greedy(model, list(prompt)))
        texts.append({"question": problem.question, "gold": problem.gold, "text": text})
        print(problem.level, text.endswith(f"\\boxed{{{problem.gold}}}."), problem.question)
    Path(sys.argv[1]).write_text(json.dumps(texts, indent=1) + "\n")


if __name__ == "__main__":
    main()
