"""Convert between the two forms of the checkpoint: transformers' folder, and the GGUF file in the package.

python training/export.py gguf FOLDER FILE         after training
python training/export.py gguf FOLDER FILE Q5_1    with fewer bits: Q8_0, Q5_1, Q5_0 or Q4_0
python training/export.py folder OUT               the shipped model as transformers and vLLM load it
python training/export.py tokenizer FOLDER         what they need beside weights and configuration
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
from shape import CHAT, CLOSE, PAD, SPECIAL, config, letters, save_tokenizer

SHIPPED: Final = Path(__file__).parents[1] / "src/sureenough/data/reasoner.gguf"
ARCHITECTURE: Final = "qwen3"
PARTS: Final = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def names(layers: int) -> dict[str, str]:
    """GGUF's names of tensors, by their names in transformers."""
    renamed = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    for layer in range(layers):
        renamed |= {f"model.layers.{layer}.{a}.weight": f"blk.{layer}.{b}.weight" for a, b in PARTS.items()}
    return renamed


def to_gguf(folder: Path, file: Path, bits: str = "F16") -> None:
    """Write the GGUF file: matrices in 16 bits or fewer, 32-bit norms."""
    from gguf import GGMLQuantizationType, GGUFWriter, quantize
    from safetensors.numpy import load_file

    shape = json.loads((folder / "config.json").read_text())
    writer = GGUFWriter(file, ARCHITECTURE)
    writer.add_name(f"sureenough {file.stem}")
    writer.add_license("Apache-2.0")
    writer.add_context_length(shape["max_position_embeddings"])
    writer.add_embedding_length(shape["hidden_size"])
    writer.add_block_count(shape["num_hidden_layers"])
    writer.add_feed_forward_length(shape["intermediate_size"])
    writer.add_head_count(shape["num_attention_heads"])
    writer.add_head_count_kv(shape["num_key_value_heads"])
    writer.add_key_length(shape["head_dim"])
    writer.add_value_length(shape["head_dim"])
    writer.add_rope_freq_base(shape["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(shape["rms_norm_eps"])
    _add_tokenizer(writer)
    weights = load_file(folder / "model.safetensors")
    for theirs, ours in names(shape["num_hidden_layers"]).items():
        tensor, kind = weights[theirs], GGMLQuantizationType["F32" if weights[theirs].ndim == 1 else bits]
        writer.add_tensor(ours, quantize(tensor.astype(np.float32), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*letters(), *SPECIAL])
    writer.add_token_types([1] * 256 + [3] * len(SPECIAL))
    # llama.cpp requires merges; these two bytes never occur in UTF-8, so this merge never applies.
    writer.add_token_merges([f"{letters()[0xFE]} {letters()[0xFF]}"])
    writer.add_eos_token_id(CLOSE)
    writer.add_pad_token_id(PAD)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT)


def to_folder(file: Path, folder: Path) -> None:
    """Write transformers' folder: the same weights, in 16 bits."""
    from gguf import GGUFReader
    from safetensors.numpy import save_file

    reader = GGUFReader(file)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    layers = int(reader.fields[f"{ARCHITECTURE}.block_count"].contents())
    width = int(reader.fields[f"{ARCHITECTURE}.embedding_length"].contents())
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        theirs: np.asarray(tensors[ours].data).reshape(tuple(reversed(tensors[ours].shape))).astype(np.float16)
        for theirs, ours in names(layers).items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    shape = config(width, layers)
    shape.architectures, shape.dtype = ["Qwen3ForCausalLM"], "float16"
    shape.save_pretrained(folder)
    save_tokenizer(folder)


def main() -> None:
    """Convert in the direction that the arguments name."""
    match sys.argv[1:]:
        case ["gguf", folder, file, *bits] if len(bits) < 2:
            to_gguf(Path(folder), Path(file), *bits)
            print(sha256(Path(file).read_bytes()).hexdigest())
        case ["folder", folder]:
            to_folder(SHIPPED, Path(folder))
        case ["tokenizer", folder]:
            save_tokenizer(Path(folder))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
