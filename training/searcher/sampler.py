"""Sample many paths at once with a cache of keys and values; a slot whose path has ended takes the next one.

One step is a CUDA graph on a GPU, and plain torch elsewhere. Every step records the two signals of its token.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from searcher.attention import best_attention
from searcher.files import Sampled
from searcher.model import Searcher
from shape import CLOSE, VOCABULARY
from torch import Tensor
from torch.nn import functional

CHUNK = 64
"""Steps between two looks at which paths have ended."""
TOP, FLOOR = 20, -100.0


@dataclass
class Running:
    """A path in a slot."""

    question: int
    number: int
    tokens: list[np.ndarray] = field(default_factory=list)
    peak: list[np.ndarray] = field(default_factory=list)
    conf: list[np.ndarray] = field(default_factory=list)

    def sampled(self) -> Sampled:
        tokens = np.concatenate(self.tokens)
        return Sampled(
            self.question,
            self.number,
            bytes(tokens[tokens < 256].astype(np.uint8)),
            np.concatenate(self.peak),
            np.concatenate(self.conf),
            bool(tokens[-1] == CLOSE),
        )


class Sampler:
    """A model with slots for paths that grow together."""

    def __init__(self, model: Searcher, slots: int, longest: int | None = None, chunk: int = CHUNK) -> None:
        self.model, self.slots, self.chunk = model, slots, chunk
        self.size = model.size
        self.longest = longest or model.size.context
        weight = model.model.embed_tokens.weight
        self.device, self.dtype = weight.device, weight.dtype
        self.attend = best_attention(self.device, self.dtype)
        shape = (self.size.layers, slots, self.size.groups, self.longest, self.size.head)
        self.keys, self.values = (torch.zeros(shape, dtype=self.dtype, device=self.device) for _ in range(2))
        self.tokens, self.positions = (torch.zeros(slots, dtype=torch.long, device=self.device) for _ in range(2))
        self.done = torch.ones(slots, dtype=torch.bool, device=self.device)
        self.rows = torch.arange(slots, device=self.device)
        self.drawn = torch.zeros((slots, chunk), dtype=torch.int16, device=self.device)
        self.signals = torch.zeros((2, slots, chunk), dtype=torch.float16, device=self.device)
        self.counter = torch.zeros(1, dtype=torch.long, device=self.device)
        self.temperature = torch.ones((slots, 1), device=self.device)
        self.top_p = torch.ones((), device=self.device)
        self._step: Callable[[], None] | None = None

    @torch.inference_mode()
    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        paths: Sequence[int],
        temperatures: Sequence[float],
        top_p: float = 0.95,
        seed: int = 0,
        until: float = float("inf"),
    ) -> Iterator[Sampled]:
        """So many paths of every prompt at its temperature, as they end; after `until` no prompt is begun."""
        torch.manual_seed(seed)
        self.top_p.fill_(top_p)
        stored, waiting = self._prefill(prompts), [(q, n) for q, many in enumerate(paths) for n in range(many)][::-1]
        running: dict[int, Running] = {}
        self.done.fill_(True)
        self.positions.zero_()
        while waiting or running:
            if waiting and time.monotonic() > until:
                question, number = waiting[-1]
                waiting = [one for one in waiting if one[0] == question] if number else []
            free = [slot for slot in range(self.slots) if slot not in running][: len(waiting)]
            begun = [waiting.pop() for _ in free]
            if begun:
                self._fill(free, [question for question, _ in begun], prompts, stored, temperatures)
                running |= {slot: Running(*one) for slot, one in zip(free, begun, strict=True)}
            self._advance()
            yield from self._collect(running)

    def _collect(self, running: dict[int, Running]) -> Iterator[Sampled]:
        """Take what the last steps gave, and the paths that ended with it."""
        drawn, (peak, conf), done = self.drawn.cpu().numpy(), self.signals.cpu().numpy(), self.done.cpu().numpy()
        counts = (peak > 0).sum(1)  # a slot whose path has ended writes zeros
        for slot in list(running):
            path, count = running[slot], int(counts[slot])
            path.tokens.append(drawn[slot, :count].copy())
            path.peak.append(peak[slot, :count].copy())
            path.conf.append(conf[slot, :count].copy())
            if done[slot]:
                yield running.pop(slot).sampled()

    def _advance(self) -> None:
        if self._step is None:
            self._step = self._quick_step() if self.device.type == "cuda" else self._one_step
        self.counter.zero_()
        for _ in range(self.chunk):
            self._step()

    def _quick_step(self) -> Callable[[], None]:
        """One step as a CUDA graph; plain if that fails. What the trial runs changed is put back."""
        changing = (self.tokens, self.positions, self.done, self.counter)
        kept = [one.clone() for one in changing]
        try:
            return self._captured()
        except RuntimeError as error:
            print(f"no CUDA graph, steps will be slower: {error!r:.300}", file=sys.stderr)
            return self._one_step
        finally:
            for one, before in zip(changing, kept, strict=True):
                one.copy_(before)

    def _captured(self) -> Callable[[], None]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._one_step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        self.counter.zero_()
        with torch.cuda.graph(graph):
            self._one_step()
        return graph.replay

    def _one_step(self) -> None:
        logits = self.forward(self.tokens[:, None])
        log_p = logits.log_softmax(-1)
        top = log_p.topk(TOP).values.clamp(min=FLOOR)
        idle = self.done
        peak = top[:, 0].exp().masked_fill(idle, 0.0)
        chosen = self._draw(logits).masked_fill(idle, CLOSE)
        self.drawn.index_copy_(1, self.counter, chosen[:, None].to(torch.int16))
        both = torch.stack((peak, -top.mean(-1))).to(torch.float16)
        self.signals.index_copy_(2, self.counter, both[:, :, None])
        self.counter.add_(1)
        full = self.positions + 2 >= self.longest
        ended = idle | full | (chosen == CLOSE)
        self.positions.copy_((self.positions + 1).masked_fill(ended, 0))  # at 0 attention has nothing to read
        self.tokens.copy_(chosen)
        self.done.copy_(ended)

    def _draw(self, logits: Tensor) -> Tensor:
        shares, order = (logits / self.temperature).softmax(-1).sort(-1, descending=True)
        shares = shares.masked_fill(shares.cumsum(-1) - shares > self.top_p, 0.0)
        place = (shares / torch.empty_like(shares).exponential_(1).clamp_(min=1e-10)).argmax(-1, keepdim=True)
        return order.gather(1, place)[:, 0]

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits after some more tokens [slots, tokens], which are put into the cache from its positions on."""
        model: Any = self.model
        places = self.positions[:, None] + torch.arange(tokens.shape[1], device=self.device)
        places, slots = places.clamp(max=self.longest - 1), self.rows[:, None]
        x = model.model.embed_tokens(tokens)
        cos, sin = model.cos[places], model.sin[places]
        for number, layer in enumerate(model.model.layers):
            q, k, v = layer.self_attn.project(layer.input_layernorm(x), cos, sin)
            self.keys[number][slots, :, places] = k
            self.values[number][slots, :, places] = v
            mixed = self.attend(q, self.keys[number], self.values[number], self.positions)
            x = x + layer.self_attn.o_proj(mixed.flatten(2))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return _logits(model, x[:, -1])

    def _prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """The keys and values of all prompts but for their last token: [layers, prompts, groups, tokens, head]."""
        longest = max(map(len, prompts))
        shape = (self.size.layers, len(prompts), self.size.groups, longest, self.size.head)
        keys, values = (torch.zeros(shape, dtype=self.dtype, device=self.device) for _ in range(2))
        for start in range(0, len(prompts), 32):
            batch = prompts[start : start + 32]
            padded = torch.tensor([[*one, *[0] * (longest - len(one))] for one in batch], device=self.device)
            for number, (k, v) in enumerate(_prompt_cache(self.model, padded)):
                keys[number, start : start + 32] = k
                values[number, start : start + 32] = v
        return keys, values

    def _fill(
        self,
        slots: list[int],
        questions: list[int],
        prompts: Sequence[Sequence[int]],
        stored: tuple[Tensor, Tensor],
        temperatures: Sequence[float],
    ) -> None:
        where, which = (torch.tensor(one, device=self.device) for one in (slots, questions))
        length = stored[0].shape[3]
        for cache, store in zip((self.keys, self.values), stored, strict=True):
            for number in range(self.size.layers):  # layer by layer: less memory at once
                cache[number][where, :, :length] = store[number][which]
        self.tokens[where] = torch.tensor([prompts[q][-1] for q in questions], device=self.device)
        self.positions[where] = torch.tensor([len(prompts[q]) - 1 for q in questions], device=self.device)
        self.temperature[where, 0] = torch.tensor([temperatures[q] for q in questions], device=self.device)
        self.done[where] = False


def _logits(model: Any, x: Tensor) -> Tensor:
    """In 32 bits: signals are made of small differences."""
    return functional.linear(model.model.norm(x).float(), model.model.embed_tokens.weight[:VOCABULARY].float())


def _prompt_cache(model: Any, tokens: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Keys and values of whole rows, layer by layer."""
    x = model.model.embed_tokens(tokens)
    cos, sin = model.cos[: tokens.shape[1]], model.sin[: tokens.shape[1]]
    for layer in model.model.layers:
        _, k, v = layer.self_attn.project(layer.input_layernorm(x), cos, sin)
        yield k.transpose(1, 2), v.transpose(1, 2)
        x = layer(x, cos, sin)
