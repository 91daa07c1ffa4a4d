"""A recorded pool with its two names in every table: dataset and model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sureenough.pools import Pool


@dataclass(frozen=True, slots=True)
class Source:
    """One dataset sampled from one model."""

    dataset: str
    model: str
    pool: Path
    kind: str | None = None  # of answer, if it is known from elsewhere than the file

    @classmethod
    def of(cls, pool: str | Path, *, dataset: str | None = None, model: str | None = None) -> Source:
        """Named by the caller, else by the pool's metadata, else by its file or folder name."""
        info = Pool(pool).info
        file = Path(pool)
        return cls(dataset or info.dataset or file.stem, model or _short(info.model) or "unknown model", file)

    @property
    def label(self) -> str:
        """Both names, for a row of a table."""
        return f"{self.dataset}, {self.model}"

    def digest(self) -> str:
        return Pool(self.pool).digest()


def _short(model: str | None) -> str | None:
    """A model's name without a remark in parentheses."""
    return model.split(" (")[0].strip() or None if model is not None else None
