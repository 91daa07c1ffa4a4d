"""Phi-decoding against a plain implementation of the paper's rules, with all draws given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from math import log
from random import Random
from subprocess import run
from sys import executable
from typing import Any

import numpy as np
import pytest

from sureenough.core.options import RunOptions
from sureenough.core.search import LONGEST_TEXT, MOST_WORDS, Continuation, Phi, Predictive, SampleLimits, text_clusters
from sureenough.core.session import Session
from sureenough.errors import UsageError
from sureenough.spec import parse
from tests.core.searching import Samples, clusters, line, line_feeds, pick, sampling, searched


def reference_phi(
    samples: Samples, uniform: Callable[[], float], *, m: int, n: int, t: tuple[int, int], k: int, delta: float
) -> str:
    """Xu et al., with texts and numpy arrays."""
    beams, values, finished = [""] * m, [0.0] * m, list[tuple[str, float]]()
    for step in range(1, t[1] + 1):
        rows = [(b, reply) for b in range(len(beams)) for reply in samples(beams[b], SampleLimits(1024, 0.6, "\n"), n)]
        scores = np.array([np.mean(reply.logprobs) if reply.logprobs else 0.0 for _, reply in rows])
        keep = [i for i in range(len(rows)) if scores[i] > scores.mean() - scores.std()]
        rest = [i for i in range(len(rows)) if i not in keep]
        weights = np.exp((scores - scores.max()) / 0.1)
        while len(keep) < len(beams):
            index = rest[pick(weights[rest], uniform())]
            keep.append(index)
            rest.remove(index)
        keep.sort()
        told = [rows[i][1].complete and bool(rows[i][1].stop_text) for i in keep]
        texts = [beams[rows[i][0]] + rows[i][1].text + told[n] * line_feeds(rows[i][1]) for n, i in enumerate(keep)]
        foresights = [samples(text, SampleLimits(1024, 1.0), 1)[0] for text in texts]
        values_now = np.array([np.mean(f.logprobs) if f.logprobs else 0.0 for f in foresights])
        before = np.array([values[rows[i][0]] for i in keep])
        advantages = np.where([bool(f.logprobs) for f in foresights], values_now - before, 0.0)
        p = np.exp(advantages / 0.6) / np.exp(advantages / 0.6).sum()
        labels = clusters([f.text for f in foresights], k, int(uniform() * 2**31))
        share = 0.0
        if labels is not None:
            c = np.array([labels.count(label) / len(labels) for label in labels])
            p, share = (p + np.exp(c / 0.6) / np.exp(c / 0.6).sum()) / 2, c.max()
        chosen, left = list[int](), list(range(len(keep)))
        while left and len(chosen) < len(beams):
            chosen.append(left.pop(pick(p[left], uniform())))
        beams, values = [], []
        for i in chosen:
            row, empty = rows[keep[i]][1], foresights[i].complete and not foresights[i].text.strip()
            if empty if not row.complete or row.stop_text is None else not row.stop_text:
                finished.append((texts[i], advantages[i]))
            else:
                beams.append(texts[i] + ("\n" if row.complete and row.stop_text is None else ""))
                values.append(values_now[i])
        same = len({f.text for f in foresights}) == 1
        if not beams or (step >= t[0] and (share >= delta or same)):
            break
    rests = [samples(text, SampleLimits(3000, 1.0), 1)[0] for text in beams]
    texts = [text + rest.text for text, rest in zip(beams, rests, strict=True)] + [text for text, _ in finished]
    gains = [np.mean(r.logprobs) - v if r.logprobs else 0.0 for r, v in zip(rests, values, strict=True)]
    gains += [gain for _, gain in finished]
    among = list(range(len(texts)))
    if not finished and all(rest.text.strip() for rest in rests):
        labels = clusters([rest.text for rest in rests], 2, int(uniform() * 2**31))
        assert labels is not None
        larger = 0 if labels.count(labels[0]) * 2 >= len(labels) else labels.index(1 - labels[0])
        among = [i for i in among if labels[i] == labels[larger]]
    return texts[among[pick(np.exp(np.array([gains[i] for i in among]) / 0.1), uniform())]]


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("seed", range(40))
def test_phi_decoding_is_the_papers(seed: int, m: int, told: bool) -> None:
    method = Phi(beams=m, rollouts=3, min_steps=2, max_steps=4, cluster=clusters)
    text, _ = searched(method, sampling(seed, told=told), Random(seed).random)
    expected = reference_phi(sampling(seed, told=told), Random(seed).random, m=m, n=3, t=(2, 4), k=3, delta=0.7)
    assert text == expected


@pytest.mark.parametrize(
    ("stop_text", "begun", "path"),
    [(None, "x", "x"), ("\n", "x\n", "x\nrest"), ("\n\n", "x\n\n", "x\n\nrest"), ("", "x", "x")],
)
def test_a_beam_ends_with_a_line_that_the_model_ended(stop_text: str | None, begun: str, path: str) -> None:
    """All foresights are empty, which decides only if the engine does not say how the line ended."""
    foresights = list[str]()

    def samples(beginning: str, limits: SampleLimits, count: int) -> list[Continuation]:
        if limits.stop:
            return [line("x", stop_text=stop_text)]
        foresights.append(beginning)
        return [line("rest" if limits.max_tokens == 3000 else "")]

    method = Phi(beams=1, rollouts=2, min_steps=1, max_steps=1, cluster=clusters)
    assert searched(method, samples, Random(1).random)[0] == path
    assert foresights[0] == begun


def test_equally_likely_steps_are_drawn() -> None:
    """None is likelier than the mean less nothing: as many as there are beams are drawn."""
    asked: list[str] = []

    def samples(beginning: str, limits: SampleLimits, count: int) -> list[Continuation]:
        asked.append(beginning)
        return [line("x", 0.5) if limits.stop else line("")]

    assert searched(Phi(beams=2, rollouts=2, cluster=clusters), samples, Random(1).random)[0] == "x"
    assert asked == [""] * 4 + ["x"] * 2  # four steps, two foresights; both are empty, so the path has ended


@pytest.mark.parametrize(("probability", "chosen"), [(1e-6, {False}), (0.999, {False, True})])
def test_a_beam_that_ends_is_chosen_only_if_its_end_was_likely(probability: float, chosen: set[bool]) -> None:
    """Of two beams one ends after its first line, by an end of this probability; the other goes on."""
    end = Continuation(logprobs=(log(probability),), unread=1)

    def path(seed: int) -> str:
        lines = iter(["early", "late"])

        def samples(beginning: str, limits: SampleLimits, count: int) -> list[Continuation]:
            if limits.stop:
                return [line(next(lines, "more"), 0.5)]
            return [end if beginning == "early" else line(" and so on", 0.5)]

        return searched(Phi(beams=2, rollouts=1, max_steps=2, cluster=clusters), samples, Random(seed).random)[0]

    assert {path(seed) == "early" for seed in range(20)} == chosen


def test_a_step_whose_line_feed_never_comes_goes_on_where_it_was_cut() -> None:
    method = Phi(beams=1, rollouts=1, max_steps=2, cluster=clusters)
    replies = iter([line("aaa", complete=False), line("bb\n"), line("cc"), line("dd"), line("end")])
    text, tokens = searched(method, lambda *_: [next(replies)], Random(1).random)
    assert text == "aaacc\nend"
    assert tokens == len("aaaccend")


def test_candidates_of_a_step_are_limited() -> None:
    with pytest.raises(UsageError, match=r"beams=64 and rollouts=64 make 4096 candidates .* at most 64"):
        Phi(beams=64, rollouts=64, cluster=clusters).check()
    Phi(beams=32, rollouts=2, cluster=clusters).check()
    with pytest.raises(UsageError, match="make 65 candidates"):
        Session(parse("phi+sc:beams=13,rollouts=5"), RunOptions(paths=1))


# -- clusters of texts by scikit-learn

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
