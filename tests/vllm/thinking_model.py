"""The built-in model with the two tags of thinking as tokens, for servers with a reasoning parser.

python tests/vllm/thinking_model.py FOLDER OUT

The closing tag has the embedding of the line feed, so that the model ends half of its lines with it; the opening one is
never sampled.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

EMBEDDING = "model.embed_tokens.weight"  # which is also that of the output


def add_tags(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    shape = json.loads((folder / "config.json").read_text())
    embedding = weights[EMBEDDING]
    line_feed = embedding[tokenizer["model"]["vocab"]["Ċ"]]
    rows = [np.zeros_like(line_feed), line_feed]
    weights[EMBEDDING] = np.concatenate([embedding, *(row[None] for row in rows)])
    for number, tag in enumerate(("<think>", "</think>"), len(embedding)):
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
        tokenizer["added_tokens"].append({"id": number, "content": tag, **flags})
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "config.json").write_text(json.dumps(shape | {"vocab_size": len(weights[EMBEDDING])}))


if __name__ == "__main__":
    shutil.copytree(sys.argv[1], sys.argv[2], dirs_exist_ok=True)
    add_tags(Path(sys.argv[2]))
