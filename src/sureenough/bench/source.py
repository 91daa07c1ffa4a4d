"""A recorded pool with the two names that every table files it under: its dataset and its model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sureenough.pools import Pool


@dataclass(frozen=True, slots=True)
class Source:
    """One dataset sampled from one model."""

    dataset: str
    model: str
    pool: Path

    @classmethod
    def of(cls, pool: str | Path, *, dataset: str | None = None, model: str | None = None) -> Source:
        """Labelled by what the pool says of itself, else by its file name, unless the caller knows better."""
        info = Pool(pool).info
        file = Path(pool)
        return cls(dataset or info.dataset or file.stem, model or _short(info.model) or "unknown model", file)

    @property
    def label(self) -> str:
        """Both names, for a row of a table."""
        return f"{self.dataset}, {self.model}"

    def digest(self) -> str:
        """The file's SHA-256: the same numbers need the same bytes."""
        with self.pool.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _short(model: str | None) -> str | None:
    """A model's name without the remark in parentheses that pools may add."""
    return model.split(" (")[0].strip() or None if model is not None else None
