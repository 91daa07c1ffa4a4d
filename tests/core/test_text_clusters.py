"""Clusters of texts by scikit-learn, and what is said without it."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from random import Random
from subprocess import run
from sys import executable
from typing import Any

import pytest

from sureenough.core.search import LONGEST_TEXT, MOST_WORDS, Phi, Predictive, text_clusters
from sureenough.errors import UsageError
from tests.core.searching import clusters

needs_scikit_learn = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureenough.core.search.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'sureenough\[search\]'"):
        Phi().check()
    replace(Phi(), cluster=clusters).check()
    Predictive().check()


@needs_scikit_learn
def test_scikit_learn_is_imported_before_anything_is_sampled() -> None:
    code = "import sys; from sureenough.core.search import Phi; Phi().check(); print('sklearn' in sys.modules)"
    assert run([executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


@needs_scikit_learn
def test_clusters_read_the_beginnings_of_texts_and_the_most_frequent_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.cluster import KMeans

    sizes: list[tuple[int, int]] = []
    fit = KMeans.fit

    def measured(self: Any, rows: Any) -> Any:
        sizes.append(rows.shape)
        return fit(self, rows)

    monkeypatch.setattr(KMeans, "fit", measured)
    head = "word " * (LONGEST_TEXT // 5)
    assert text_clusters([head + f"end{n} " * 10_000 for n in range(3)], 3, 1) == [0, 0, 0]
    texts = [" ".join(f"w{n}" for n in range(start, start + 3000)) for start in range(0, 48_000, 3000)]
    assert text_clusters(texts, 3, 1) is not None
    assert sizes == [(3, 1), (16, MOST_WORDS)]


@needs_scikit_learn
@pytest.mark.parametrize("seed", range(5))
def test_the_limits_do_not_change_clusters_of_ordinary_texts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Foresights of 1,000 words each, of which no two need be alike."""
    random = Random(seed)
    texts = [" ".join(f"w{int(random.expovariate(0.0003))}" for _ in range(1000)) for _ in range(16)]
    labels = text_clusters(texts, 3, seed)
    monkeypatch.setattr("sureenough.core.search.MOST_WORDS", None)
    monkeypatch.setattr("sureenough.core.search.LONGEST_TEXT", None)
    assert text_clusters(texts, 3, seed) == labels


@needs_scikit_learn
def test_texts_are_clustered_by_their_words() -> None:
    texts = ["seven apples", "seven apples now", "a green house", "the green house"]
    labels = text_clusters(texts, 2, 1)
    assert labels is not None
    assert labels[0] == labels[1] != labels[2] == labels[3]
    assert text_clusters(texts, 2, 1) == labels
    assert text_clusters(["same text"] * 3, 3, 1) == [0, 0, 0]
    assert len(set(text_clusters(texts[1:], 9, 1) or ())) == 3
    assert text_clusters(["", "a", "+"], 3, 1) is None
