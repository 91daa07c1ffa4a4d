"""Texts by their words: TF-IDF and k-means, from scikit-learn, which the extra `search` installs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from sureenough.errors import UsageError

Cluster = Callable[[Sequence[str], int, int], list[int] | None]
"""The cluster of every text, given how many clusters there may be and a seed; None if the texts have no words."""
LONGEST_TEXT: Final = 20_000
"""Characters of a text that are read; 3,000 tokens, the most that are sampled, are about 12,000 in ordinary texts."""
MOST_WORDS: Final = 16_384
"""Different words that count, the most frequent ones; 16 foresights of 1,024 tokens cannot have more."""


def require_scikit_learn() -> None:
    """Refuse to go on without it, with what to install, and import it: that takes seconds, and must not delay paths."""
    if find_spec("sklearn") is None:
        raise UsageError("phi clusters texts with scikit-learn, which is missing: pip install 'sureenough[search]'")
    for name in ("sklearn.cluster", "sklearn.feature_extraction.text"):
        import_module(name)


def text_clusters(texts: Sequence[str], clusters: int, seed: int) -> list[int] | None:
    """The clusters of texts; no more than there are different texts, with which k-means has no solution."""
    from sklearn.cluster import KMeans
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        words = TfidfVectorizer(max_features=MOST_WORDS)
        vectors = words.fit_transform([text[:LONGEST_TEXT] for text in texts]).toarray()
    except ValueError:  # no text has a word of two letters or digits
        return None
    different = len({row.tobytes() for row in vectors})
    kmeans = KMeans(min(clusters, different), random_state=seed).fit(vectors)
    return [int(label) for label in kmeans.labels_]
