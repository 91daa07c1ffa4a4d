"""A small Qwen3 in plain torch, for training and for sampling; its tensors are named as in transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from shape import CLOSE, PAD, VOCABULARY
from torch import Tensor, nn
from torch.nn import functional

PADDED = 320  # rows of the embedding while training: a multiple of 64 is faster


@dataclass(frozen=True)
class Size:
    width: int = 512
    layers: int = 8
    head: int = 64
    context: int = 4096
    theta: float = 10_000.0
    eps: float = 1e-6

    @property
    def heads(self) -> int:
        return self.width // self.head

    @property
    def groups(self) -> int:
        """Heads for keys and values."""
        return max(1, self.heads // 2)

    def config(self) -> dict[str, Any]:
        """As transformers' config.json has it."""
        return {
            "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": VOCABULARY,
            "hidden_size": self.width, "intermediate_size": 3 * self.width, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.groups, "head_dim": self.head,
            "max_position_embeddings": self.context,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.theta}, "rope_theta": self.theta,
            "rms_norm_eps": self.eps, "tie_word_embeddings": True, "attention_bias": False,
            "hidden_act": "silu", "eos_token_id": CLOSE, "pad_token_id": PAD, "bos_token_id": None, "dtype": "float16",
        }  # fmt: skip


class Norm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x.float(), x.shape[-1:], self.weight.float(), self.eps).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions; the two halves of a head are the pairs."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        wide, narrow = size.heads * size.head, size.groups * size.head
        self.q_proj = nn.Linear(size.width, wide, bias=False)
        self.k_proj = nn.Linear(size.width, narrow, bias=False)
        self.v_proj = nn.Linear(size.width, narrow, bias=False)
        self.o_proj = nn.Linear(wide, size.width, bias=False)
        self.q_norm, self.k_norm = Norm(size.head, size.eps), Norm(size.head, size.eps)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values by head: [batch, tokens, heads, head]."""
        batch, count, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(batch, count, -1, self.size.head))
        k = self.k_norm(self.k_proj(x).view(batch, count, -1, self.size.head))
        v = self.v_proj(x).view(batch, count, -1, self.size.head)
        return rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype), v

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = (one.transpose(1, 2) for one in self.project(x, cos, sin))
        repeat = self.size.heads // self.size.groups
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size.width, 3 * size.width, bias=False)
        self.up_proj = nn.Linear(size.width, 3 * size.width, bias=False)
        self.down_proj = nn.Linear(3 * size.width, size.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.input_layernorm = Norm(size.width, size.eps)
        self.self_attn = Attention(size)
        self.post_attention_layernorm = Norm(size.width, size.eps)
        self.mlp = FeedForward(size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(PADDED, size.width)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.norm = Norm(size.width, size.eps)


class Searcher(nn.Module):
    """The model; `forward` gives the logits of every position."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.model = Body(size)
        angles = torch.outer(torch.arange(size.context), size.theta ** (-torch.arange(0, size.head, 2) / size.head))
        self.register_buffer("cos", angles.cos()[:, None], persistent=False)  # [position, 1, head / 2]
        self.register_buffer("sin", angles.sin()[:, None], persistent=False)
        for name, weight in self.named_parameters():
            if weight.ndim > 1:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=0.02 / (2 * size.layers) ** 0.5 if last else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.model.embed_tokens(tokens)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return self.logits(x)

    def logits(self, x: Tensor) -> Tensor:
        return functional.linear(self.model.norm(x), self.model.embed_tokens.weight.to(x.dtype))[..., :VOCABULARY]

    def weights(self) -> dict[str, Tensor]:
        """The tensors as transformers has them, in 16 bits, without the rows that pad the vocabulary."""
        tensors = {name: weight.detach().to("cpu", torch.float16) for name, weight in self.named_parameters()}
        tensors["model.embed_tokens.weight"] = tensors["model.embed_tokens.weight"][:VOCABULARY].clone()
        return tensors

    def in_16_bits(self, dtype: torch.dtype) -> Searcher:
        """For sampling; the tables of positions stay as they are."""
        for weight in self.parameters():
            weight.data = weight.data.to(dtype)
        return self.eval()

    def load_weights(self, tensors: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, weight in self.named_parameters():
                weight[: len(tensors[name])] = tensors[name].to(weight.dtype).to(weight.device)
