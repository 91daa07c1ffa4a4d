"""What running paths would answer if they had to, as `sureenough record --probes` asks them.

After the path so far comes the opening of a box, and then the most likely tokens. The path goes on as if nothing had
happened: its next tokens overwrite those of the probe in the cache.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from searcher.sampler import Sampler

OPENING = b"\nThe answer is \\boxed{"
CLOSED = re.compile(rb"(\d{1,6})\}")
ROOM = 8
"""Tokens for an answer."""


def ask(sampler: Sampler, slots: Sequence[int]) -> dict[int, tuple[int | None, int]]:
    """The answers of these slots so far, None for what is not a whole number, and the tokens that each took."""
    tokens, positions = sampler.tokens.clone(), sampler.positions.clone()
    opening = torch.tensor(list(OPENING), device=sampler.device).expand(sampler.slots, -1)
    chosen = sampler.forward(torch.cat((tokens[:, None], opening), 1)).argmax(-1)
    sampler.positions += 1 + len(OPENING)
    drawn, closed = [chosen], chosen == ord("}")
    relevant = torch.tensor(slots, device=sampler.device)
    while len(drawn) < ROOM and not closed[relevant].all():
        chosen = sampler.forward(chosen[:, None]).argmax(-1)
        sampler.positions += 1
        drawn.append(chosen)
        closed |= chosen == ord("}")
    fits = (positions + 1 + len(OPENING) + ROOM < sampler.longest).cpu().numpy()
    sampler.tokens.copy_(tokens)
    sampler.positions.copy_(positions)
    written = torch.stack(drawn, 1).cpu().numpy()
    return {slot: read(written[slot].tolist()) if fits[slot] else (None, 0) for slot in slots}


def read(tokens: Sequence[int]) -> tuple[int | None, int]:
    """The number up to the end of the box, and the tokens that it took; all of them if there is none."""
    text = bytes(token if token < 256 else 0 for token in tokens)
    closed = CLOSED.match(text)
    return (int(closed[1]), closed.end()) if closed else (None, text.find(b"}") + 1 or len(tokens))
