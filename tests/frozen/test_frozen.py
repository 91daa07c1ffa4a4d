"""Every frozen file, made again, is the same to the bit."""

from __future__ import annotations

import pytest

from tests.frozen.make import FILES, HERE, text_of


@pytest.mark.parametrize("name", FILES)
def test_nothing_moved(name: str) -> None:
    made, frozen = text_of(name).splitlines(), (HERE / name).read_text().splitlines()
    moved = [f"- {old[:400]}\n+ {new[:400]}" for old, new in zip(frozen, made, strict=False) if old != new]
    hint = f"; if this is meant, say why in the commit of `python -m tests.frozen.make {name}`"
    assert not moved, f"{len(moved)} lines of {name} moved{hint}:\n" + "\n".join(moved[:5])
    assert len(made) == len(frozen)
