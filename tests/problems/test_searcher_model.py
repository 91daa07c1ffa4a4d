"""The long-chain model in torch: its sampler, its kernel and its optimizer. Runs if torch is installed."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

from searcher.files import Sampled  # noqa: E402
from searcher.model import Searcher, Size  # noqa: E402
from searcher.muon import Muon, orthogonal  # noqa: E402
from searcher.probe import probe  # noqa: E402
from searcher.sampler import Sampler, attend_plainly  # noqa: E402
from searcher.train import loss_of, options, schedule  # noqa: E402
from shape import CLOSE, prompt_tokens  # noqa: E402

PROMPTS = [prompt_tokens("a"), prompt_tokens("a longer one"), prompt_tokens("bc")]


def small_model() -> Searcher:
    """A model that is sure enough of some tokens to make signals differ."""
    torch.manual_seed(0)
    model = Searcher(Size(64, 2, head=32, context=128))
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(1.0 if weight.ndim == 1 else 0.0, 0.2)
    model.eval()
    return model


def signals(model: Searcher, path: Sampled) -> tuple[np.ndarray, np.ndarray]:
    """Peak and conf of a path by one pass over all of it."""
    prompt = PROMPTS[path.question]
    tokens = [*prompt, *path.text]
    with torch.no_grad():
        log_p = model(torch.tensor([tokens]))[0].float().log_softmax(-1)[len(prompt) - 1 :]
    top = log_p.topk(20).values[: len(path.conf)]
    return top[:, 0].exp().numpy(), -top.mean(-1).numpy()


def test_sampled_signals_are_those_of_the_whole_text() -> None:
    model = small_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[CLOSE] *= 1.5  # so that some paths end early and slots are used again
    paths = list(Sampler(model, slots=4, longest=100).sample(PROMPTS, 6, 1.0, seed=1))
    assert sorted((path.question, path.number) for path in paths) == [(q, n) for q in range(3) for n in range(6)]
    assert len({path.finished for path in paths}) == 2
    for path in paths:
        assert len(path.conf) == len(path.peak)
        whole = all(byte < 256 for byte in path.text) and len(path.text) == len(path.conf) - path.finished
        if whole:  # tokens without text are rare, and cannot be read back
            peak, conf = signals(model, path)
            np.testing.assert_allclose(path.peak, peak, atol=2e-3)
            np.testing.assert_allclose(path.conf, conf, rtol=2e-3)
    assert sum(len(path.text) == len(path.conf) - path.finished for path in paths) > 9


def test_low_temperature_takes_the_most_likely_token() -> None:
    model = small_model()
    paths = list(Sampler(model, slots=6, longest=60).sample(PROMPTS[:1], 6, 1e-4))
    assert len({path.text for path in paths}) == 1


def test_every_path_is_probed_at_every_point_before_its_end() -> None:
    model = small_model()
    ones = np.ones(20)
    paths = [Sampled(0, 4, b"x" * 20, ones, ones, False), Sampled(1, 0, b"y" * 9, ones[:10], ones[:10], True)]
    probes = probe(Sampler(model, 2, 128, chunk=16), ["a", "b"], paths, 5)
    assert sorted(one[:3] for one in probes) == [(0, 4, 5), (0, 4, 10), (0, 4, 15), (1, 0, 5)]
    assert all(one.answer is None for one in probes)  # this model does not write numbers


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="needs Triton's interpreter, or a GPU")
def test_the_kernel_agrees_with_plain_torch() -> None:
    pytest.importorskip("triton")
    from searcher.decode_kernel import attend

    torch.manual_seed(0)
    query, key, value = torch.randn(5, 4, 32), torch.randn(5, 2, 200, 32), torch.randn(5, 2, 200, 32)
    position = torch.tensor([0, 63, 64, 130, 199])
    torch.testing.assert_close(attend(query, key, value, position), attend_plainly(query, key, value, position))


def test_muon_moves_by_nearly_orthogonal_matrices() -> None:
    torch.manual_seed(0)
    for shape in ((3, 16, 16), (3, 8, 32), (3, 32, 8)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert 0.3 < values.min() < values.max() < 1.6
    matrix = torch.nn.Parameter(torch.randn(8, 8))
    optimizer = Muon([matrix], 0.1)
    losses = []
    for _ in range(30):
        loss = matrix.square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2


def test_the_learning_rate_rises_by_steps_and_falls_by_the_clock() -> None:
    assert schedule(0, 0.0) == pytest.approx(0.01)
    assert schedule(99, 0.0) == 1.0
    assert schedule(5_000, 0.5) == 0.5
    assert schedule(5_000, 1.2) == 0.0


def test_only_marked_tokens_are_learned() -> None:
    from searcher.corpus import LEARNED

    model = small_model()
    rows = torch.randint(0, 256, (2, 33), dtype=torch.int32)
    marked = rows.clone()
    marked[:, 20:] |= LEARNED
    with torch.no_grad():
        assert float(loss_of(model, rows, "cpu")) == 0.0
        every = torch.nn.functional.cross_entropy(
            model(rows[:, :-1].long()).transpose(1, 2), rows[:, 1:].long(), reduction="none"
        )
        assert float(loss_of(model, marked, "cpu")) == pytest.approx(float(every[:, 19:].mean()), rel=1e-4)


def test_a_batch_is_made_of_whole_passes() -> None:
    assert options(["out", "--batch", "16", "--micro", "8"]).batch == 16
    with pytest.raises(SystemExit):
        options(["out", "--batch", "12"])
