"""What the shipped model writes at temperature 0, by transformers' forward pass: `python training/golden.py FILE`.

The tests hold llama.cpp's reading of the GGUF file to these texts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from export import SHIPPED, to_folder
from shape import CLOSE
from transformers import AutoTokenizer, Qwen3ForCausalLM

from sureenough.problems import LEVELS, generate

EACH = 4


@torch.inference_mode()
def greedy(model: Any, prompt: list[int], most: int = 800) -> list[int]:
    """The likeliest token, again and again."""
    out = model(input_ids=torch.tensor([prompt]), use_cache=True)
    made: list[int] = []
    while len(made) < most:
        made.append(int(out.logits[0, -1].argmax()))
        if made[-1] == CLOSE:
            return made[:-1]
        out = model(input_ids=torch.tensor([made[-1:]]), past_key_values=out.past_key_values, use_cache=True)
    return made


def main() -> None:
    """Twenty problems, all levels and families."""
    with TemporaryDirectory() as folder:
        to_folder(SHIPPED, Path(folder))
        model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for problem in [problem for level in LEVELS for problem in generate(level, seed=3, n=EACH)]:
        turn = [{"role": "user", "content": problem.question}]
        prompt = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=True, return_dict=False)
        text = tokenizer.decode(greedy(model, list(prompt)))
        found.append({"question": problem.question, "gold": problem.gold, "text": text})
        print(problem.level, text.endswith(f"\\boxed{{{problem.gold}}}."), problem.question)
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
