"""The long-chain model in torch: its sampler, its kernel and its optimizer. Runs if torch is installed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

from searcher.attention import attend_plainly  # noqa: E402
from searcher.evaluate import choose  # noqa: E402
from searcher.files import Sampled, load_paths  # noqa: E402
from searcher.model import Searcher, Size  # noqa: E402
from searcher.muon import Muon, orthogonal  # noqa: E402
from searcher.record import Part, record  # noqa: E402
from searcher.record import options as record_options  # noqa: E402
from searcher.sampler import Sampler  # noqa: E402
from searcher.train import loss_of, options, schedule  # noqa: E402
from shape import CLOSE, prompt_tokens  # noqa: E402

torch.set_num_threads(1)  # the tensors are small, and threads that wait for each other are slow on a busy machine
PROMPTS = [prompt_tokens("a"), prompt_tokens("a longer one"), prompt_tokens("bc")]


def small_model(context: int = 128) -> Searcher:
    """A model that is sure enough of some tokens to make signals differ."""
    torch.manual_seed(0)
    model = Searcher(Size(64, 2, head=32, context=context))
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
    paths = list(Sampler(model, slots=4, longest=100).sample(PROMPTS, [6] * 3, [1.0] * 3, seed=1))
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
    paths = list(Sampler(model, slots=6, longest=60).sample(PROMPTS[:1], [6], [1e-4]))
    assert len({path.text for path in paths}) == 1


def test_no_question_is_begun_when_the_time_is_over() -> None:
    model = small_model()
    sampled = Sampler(model, slots=2, longest=60, chunk=8).sample(PROMPTS, [5] * 3, [1.0] * 3, until=0.0)
    assert not list(sampled)


def test_a_recording_goes_on_with_the_questions_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("searcher.record.TOKENS_PER_FILE", 1)
    monkeypatch.setattr("searcher.evaluate.ProcessPoolExecutor", ThreadPoolExecutor)
    sampler = Sampler(small_model(context=320), slots=20, chunk=64)
    parts = [Part("pool", 9002, 1, 0, 2), Part("wide", 9003, 1, 0, 3)]
    arguments = record_options([str(tmp_path)])
    record(sampler, parts, 1.0, arguments)
    assert len(list(tmp_path.glob("pool.*.xz"))) == 5
    lost = tmp_path / "pool.003.xz"
    questions = {path.question for path in load_paths(lost)}
    lost.unlink()
    record(sampler, parts, 1.0, arguments)
    assert {path.question for path in load_paths(tmp_path / "pool.005.xz")} == questions
    assert len(list(tmp_path.glob("pool.*.xz"))) == 5
    assert len(list(tmp_path.glob("wide.*.xz"))) == 5


def test_the_temperature_is_the_one_that_meets_the_aim_or_misses_it_least() -> None:
    def measured(one: float, majority: float) -> dict[str, Any]:
        return {"one_path": one, "majority": majority}

    assert choose({0.6: measured(0.5, 0.7), 0.8: measured(0.4, 0.7), 1.0: measured(0.2, 0.6)}) == (0.8, True)
    assert choose({0.6: measured(0.9, 0.95), 0.8: measured(0.7, 0.9), 1.0: measured(0.1, 0.3)}) == (0.8, False)


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="needs Triton's interpreter, or a GPU")
def test_the_kernel_agrees_with_plain_torch() -> None:
    pytest.importorskip("triton")
    from searcher.decode_kernel import attend

    torch.manual_seed(0)
    key, value = torch.randn(5, 2, 200, 32), torch.randn(5, 2, 200, 32)
    position = torch.tensor([0, 63, 64, 130, 195])
    for count in (1, 5, 23):  # the last path has no room for 23 tokens: those that do not fit are not compared
        query = torch.randn(5, count, 4, 32)
        ours, plain = attend(query, key, value, position), attend_plainly(query, key, value, position)
        torch.testing.assert_close(ours[:, :5], plain[:, :5])
        torch.testing.assert_close(ours[:4], plain[:4])


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
    assert schedule(99, 0.0) == pytest.approx(1.0)
    assert schedule(5_000, 0.5) == pytest.approx(0.5)
    assert schedule(5_000, 1.2) == pytest.approx(0.0)


def test_only_marked_tokens_are_learned() -> None:
    from searcher.corpus import LEARNED

    model = small_model()
    rows = torch.randint(0, 256, (2, 33), dtype=torch.int32)
    marked = rows.clone()
    marked[:, 20:] |= LEARNED
    with torch.no_grad():
        assert float(loss_of(model, rows, "cpu")) == pytest.approx(0.0)
        every = torch.nn.functional.cross_entropy(
            model(rows[:, :-1].long()).transpose(1, 2), rows[:, 1:].long(), reduction="none"
        )
        assert float(loss_of(model, marked, "cpu")) == pytest.approx(float(every[:, 19:].mean()), rel=1e-4)


def test_a_batch_is_made_of_whole_passes() -> None:
    assert options(["out", "--batch", "16", "--micro", "8"]).batch == 16
    with pytest.raises(SystemExit):
        options(["out", "--batch", "12"])
