"""The local engine on the built-in model: sizes refused with numbers, slots freed, tokens counted, nothing said.

The head of a GGUF file is read for its sizes, and models are downloaded from a hub on this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sureenough as se
from sureenough import reasoner
from sureenough.cli.doctor import examine
from sureenough.engines.local import llama_server as llama
from sureenough.engines.local.engine import LocalConnection
from sureenough.engines.local.models import HubFile, choose_file, header, parse_hub_name, parts
from sureenough.errors import UsageError
from tests.hub import COMMIT, serving_hub


def text(value: str) -> bytes:
    """A string as GGUF has it."""
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def typed(value: Any) -> bytes:
    """A value after its type."""
    match value:
        case str():
            return struct.pack("<I", 8) + text(value)
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        case _:
            return struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)


def head(keys: Mapping[str, Any], version: int = 3, tensors: int = 0) -> bytes:
    """The head of a file."""
    pairs = b"".join(text(name) + typed(value) for name, value in keys.items())
    return b"GGUF" + struct.pack("<IQQ", version, tensors, len(keys)) + pairs


QWEN: Mapping[str, Any] = {
    "general.architecture": "qwen3",
    "general.name": "a model",
    "qwen3.context_length": 4096,
    "qwen3.embedding_length": 256,
    "qwen3.block_count": 6,
    "qwen3.attention.head_count": 4,
    "qwen3.attention.head_count_kv": 2,
    "qwen3.attention.key_length": 64,
    "qwen3.attention.value_length": 64,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
    "tokenizer.ggml.scores": list(range(2000)),
}


PROMPT = se.Prompt.user("Compute 12+7.")
ENDLESS: dict[str, Any] = {"slots": 8, "context": 8 * 2048, "max_path_tokens": 1500, "extra": {"ignore_eos": True}}


def bounded(work: Coroutine[Any, Any, Any], seconds: float = 60) -> Any:
    return asyncio.run(asyncio.wait_for(work, timeout=seconds))


async def now(ready: LocalConnection) -> Any:
    found = await ready.connection.counters()
    assert found is not None
    return found


def written(folder: Path, data: bytes, name: str = "model.gguf") -> Path:
    file = folder / name
    file.write_bytes(data)
    return file


def model(folder: Path, **keys: Any) -> Path:
    """A file that has a model's head and nothing behind it."""
    return written(folder, head({**QWEN, **{name.replace("__", "."): value for name, value in keys.items()}}))


@pytest.mark.parametrize(
    ("options", "parallel", "says"),
    [
        ({"context": 4096, "max_path_tokens": 1000}, 16,
         r"4,096 tokens leaves 16 paths 256 each, and a path of 1,000 needs more.* context=24576"),
        ({"context": 1024}, 16, r"1,024 tokens leaves 16 paths 64 each"),
        ({"max_path_tokens": 5000}, 1, r"trained for 4,096 tokens; 5,001 per path.*: give max_path_tokens=3584 or"),
        ({"context": 80_000}, 16, r"trained for 4,096 tokens; 5,000 per path.*: give context=65536 or less"),
        ({"slots": 4}, 16, r"16 parallel paths do not fit 4 slots"),
    ],
)  # fmt: skip
def test_sizes_that_are_not_possible(options: dict[str, Any], parallel: int, says: str, tmp_path: Path) -> None:
    with pytest.raises(se.UsageError, match=says):
        se.Local(model(tmp_path), **options).plan(parallel)


@pytest.mark.parametrize(
    ("options", "slot"),
    [({}, 4096), ({"max_path_tokens": 1000}, 1536), ({"max_path_tokens": 4000}, 4096), ({"context": 8192}, 2048)],
)
def test_what_a_path_gets(options: dict[str, Any], slot: int, tmp_path: Path) -> None:
    plan = se.Local(model(tmp_path), **options).plan(4)
    assert (plan.slots, plan.slot) == (4, slot)
    assert plan.bytes > 4 * slot * 2 * 6 * 2 * 128, "keys and values of every token, and the weights"


@pytest.mark.parametrize(
    "options",
    [{"slots": 0}, {"context": -1}, {"threads": 1.5}, {"top_p": 0}, {"temperature": -1}, {"max_path_tokens": 0}],
)
def test_settings_that_are_not_valid(options: dict[str, Any]) -> None:
    with pytest.raises(se.UsageError, match=f"{next(iter(options))} is "):
        se.Local(**options)


def test_too_little_memory(tmp_path: Path) -> None:
    large = model(tmp_path, qwen3__context_length=2**30, qwen3__block_count=1000)
    engine = se.Local(large, context=2**32)
    with pytest.raises(
        se.UsageError, match=r"memory is short: model.gguf with 16 paths of 268,435,456 tokens takes abo"
    ):
        se.ask(PROMPT, engine, "sc")
    assert se.Local(large).plan(16).slot <= 4096, "without a wish it takes what fits"


def test_memory_is_read_from_what_the_machine_says(tmp_path: Path) -> None:
    info = tmp_path / "meminfo"
    info.write_text("MemTotal: 9000 kB\nMemAvailable:    2000 kB\n")
    assert llama.available(info, tmp_path) == 2_048_000
    for name, text in {"memory.max": "1000000", "memory.current": "900000", "memory.stat": "inactive_file 5"}.items():
        (tmp_path / name).write_text(text)
    assert llama.available(info, tmp_path) == 100_005, "a container's limit counts"
    assert (llama.shown(2.5e9), llama.shown(12e6)) == ("2.5 GB", "12 MB")


def test_a_model_that_llama_cpp_cannot_load(tmp_path: Path) -> None:
    with pytest.raises(se.EngineUnavailable, match=r"llama.cpp cannot load .*model.gguf: it may be damaged, too large"):
        se.ask(PROMPT, se.Local(model(tmp_path)), "sc", paths=1, parallel=1)


def test_weights_that_were_changed(tmp_path: Path) -> None:
    assert reasoner.FILE.stat().st_size <= 12_000_000
    assert reasoner.file() == reasoner.FILE
    copy = tmp_path / "reasoner.gguf"
    shutil.copy(reasoner.FILE.with_suffix(".json"), copy.with_suffix(".json"))
    copy.write_bytes(reasoner.FILE.read_bytes()[:-1] + b"?")
    with pytest.raises(se.UsageError, match="the built-in model is damaged: its checksum is"):
        reasoner.file(copy)
    with pytest.raises(se.UsageError, match="the built-in model is missing from this installation"):
        reasoner.file(tmp_path / "elsewhere.gguf")


def test_a_question_that_leaves_no_room() -> None:
    engine = se.Local(context=2048, slots=2, max_path_tokens=1000)
    with pytest.raises(
        se.UsageError, match=r"\d+ tokens of the question and 1,000 of a path do not fit the 1,024 of a path's context"
    ):
        se.ask(se.Prompt.user("1+" * 20 + "1"), engine, "sc", paths=2, parallel=2)


def test_the_proposal_for_a_question_that_leaves_no_room_works() -> None:
    question = se.Prompt.user("1+" * 450 + "1")
    several: tuple[dict[str, Any], ...] = ({}, {"max_path_tokens": 1500})
    for options in several:
        with pytest.raises(se.UsageError, match="do not fit") as refused:
            se.ask(question, se.Local(**options), "sc", paths=2, parallel=2)
        proposed = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", str(refused.value))}
        assert proposed
        assert se.ask(question, se.Local(**(options | proposed)), "sc", paths=2, parallel=2, max_tokens=50).started == 2
    with pytest.raises(se.UsageError, match=r"give a shorter question or a larger context$"):
        se.ask(se.Prompt.user("1+" * 1100 + "1"), se.Local(), "sc", paths=2, parallel=2)


def test_one_server_serves_run_after_run_and_grows_when_it_must() -> None:
    async def address(parallel: int, **options: Any) -> str:
        async with se.Local(max_path_tokens=64, **options).open(parallel=parallel) as ready:
            return ready.server.url

    llama.stop_all()
    first, again, colder = [bounded(address(2, **o)) for o in ({}, {}, {"temperature": 0.1})]
    assert first == again == colder
    wider = bounded(address(4))
    assert wider != first
    assert bounded(address(2)) == wider, "room enough for two"
    assert len(llama._running) == 1, "the small one was stopped"


def test_requests_without_its_key_are_refused() -> None:
    async def use() -> list[int]:
        async with se.Local(max_path_tokens=64).open(parallel=1) as ready, httpx.AsyncClient() as stranger:
            assert ready.server.url.startswith("http://127.0.0.1:")
            root = ready.server.url.removesuffix("/v1")
            return [(await stranger.get(f"{root}/{verb}")).status_code for verb in ("metrics", "slots", "props")]

    assert bounded(use()) == [401, 401, 401]


def made_by_the_server(strategy: str, **options: Any) -> tuple[se.Outcome, int]:
    async def use() -> tuple[se.Outcome, int]:
        engine = se.Local(**ENDLESS | options)
        async with engine.open(parallel=1) as ready:
            before = await now(ready)
        out = await se.aask(PROMPT, engine, strategy, paths=24, window=16, parallel=8)
        async with engine.open(parallel=1) as ready:
            return out, (await now(ready)).generated - before.generated

    found: tuple[se.Outcome, int] = bounded(use())
    return found


@pytest.mark.parametrize(
    ("strategy", "options", "prunes"),
    [
        ("sc", {"max_path_tokens": 100, "extra": {}}, False),
        ("ddc:tau=1,drop=0,trust=0,risk=p100", {"max_path_tokens": 100, "extra": {}}, False),
        ("ddc:warmup=4,drop=90,trust=100,tau=1", {"max_path_tokens": 300}, True),
    ],
)
def test_tokens_counted_are_tokens_made_by_the_server(strategy: str, options: dict[str, Any], prunes: bool) -> None:
    out, made = made_by_the_server(strategy, **options)
    assert out.tokens.total == made
    assert (out.pruned > 0, out.tokens.overrun_known, out.failed) == (prunes, True, 0)
    assert prunes or out.tokens.overrun == 0


def test_runs_side_by_side_do_not_claim_each_others_tokens() -> None:
    async def both() -> list[se.Outcome]:
        options: dict[str, Any] = {"paths": 8, "window": 16, "parallel": 4, "deadline": 1.0}
        engine = se.Local(**ENDLESS)
        return await asyncio.gather(*(se.aask(PROMPT, engine, "ddc:warmup=4", **options) for _ in range(2)))

    assert [out.tokens.overrun_known for out in bounded(both())] == [False, False]


def test_the_doctor_finds_nothing() -> None:
    checks = bounded(examine(se.Local(temperature=1.0, top_p=1.0)))
    assert {check.name: check.good for check in checks if check.good is not True} == {}


def test_the_first_tokens_do_not_depend_on_llama_cpps_own_defaults() -> None:
    sent = se.Local(temperature=0.3).sampling()
    assert (sent["samplers"], sent["top_k"], sent["min_p"]) == (["temperature", "top_p"], 0, 0.0)
    assert se.Local(extra={"top_k": 5}).sampling()["top_k"] == 5


def test_without_an_engine_the_built_in_model_is_used() -> None:
    out = se.ask("Compute 12+7.", strategy="sc", paths=2, parallel=2)
    assert out.window == reasoner.card().window
    assert out.notes[-1] == "answered by the built-in model, which knows school arithmetic only"
    strange = se.ask("Who wrote Faust?", strategy="sc", paths=1, parallel=1, max_tokens=20)
    assert "the built-in model has never seen 'who', 'wrote', 'faust'" in strange.notes[-1]


QUIET = """
import sureenough as se
out = se.ask("Compute 12+7.", se.Local(max_path_tokens=200), "ddc:warmup=2,tau=1", paths=4, parallel=2)
print(out.started)
"""
HANGING = """
import asyncio, sys, sureenough as se
async def main():
    async with se.Local(max_path_tokens=1500, extra={"ignore_eos": True}).open(parallel=2) as ready:
        stream = ready.stream(se.Prompt.user("Compute 1."), seed=1)
        await anext(stream)
        print("running", flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


def python(code: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | env
    )


def test_it_prints_nothing_and_uses_no_proxy() -> None:
    with python(QUIET, HTTP_PROXY="http://127.0.0.1:9", http_proxy="http://127.0.0.1:9") as process:
        said, complained = process.communicate(timeout=60)
    assert (process.returncode, said.strip(), complained) == (0, "4", "")


def test_an_interrupt_ends_it_while_paths_run() -> None:
    with python(HANGING) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        _, complained = process.communicate(timeout=20)
    assert process.returncode in (-signal.SIGINT, 130, 1)
    assert complained.rstrip().endswith("KeyboardInterrupt")


def test_without_the_package_the_error_names_the_command() -> None:
    code = "import sys; sys.modules['xllamacpp'] = None\nimport sureenough as se\nse.ask('Compute 1+1.')"
    with python(code) as process:
        complained = process.communicate(timeout=60)[1]
    assert "UsageError: the local engine needs the package xllamacpp: pip install 'sureenough[local]'" in complained


def test_sizes_of_a_model(tmp_path: Path) -> None:
    found = header(written(tmp_path, head(QWEN)))
    assert (found.context, found.vocabulary) == (4096, 3)
    assert found.cache_bytes == 2 * 6 * 2 * (64 + 64), "16 bits, layers, heads, keys and values"
    assert found.bytes == len(head(QWEN))


@pytest.mark.parametrize(
    ("changed", "cache"),
    [
        ({"qwen3.attention.head_count_kv": [2, 0, 2, 0, 2, 0]}, 2 * 6 * 128),
        ({"qwen3.attention.key_length": "odd"}, 2 * 12 * 128),
        ({"qwen3.block_count": 0}, 0),
    ],
)
def test_models_that_are_not_alike(changed: dict[str, Any], cache: int, tmp_path: Path) -> None:
    assert header(written(tmp_path, head({**QWEN, **changed}))).cache_bytes == cache


def test_parts_count_together(tmp_path: Path) -> None:
    first = written(tmp_path, head(QWEN), "m-00001-of-00002.gguf")
    with pytest.raises(UsageError, match=r"m-00002-of-00002\.gguf is missing: the model has 2 files"):
        header(first)
    written(tmp_path, b"x" * 1000, "m-00002-of-00002.gguf")
    assert header(first).bytes == len(head(QWEN)) + 1000
    assert [part.name for part in parts(first)] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not a GGUF file"),
        (b"<!doctype html>", "is not a GGUF file"),
        (b"GGUF", "damaged"),
        (head(QWEN)[:100], "damaged"),
        (head(QWEN)[:200], "longer than the file"),
        (head(QWEN, version=9), "version 9; 2 and 3 are known"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62), "longer than the file"),
        (head({})[:16] + struct.pack("<QQ", 1, 1) + b"k" + struct.pack("<IIQ", 9, 4, 2**61), "longer than the file"),
        (head({})[:16] + struct.pack("<QQ", 1, 1) + b"k" + struct.pack("<IIQ", 9, 9, 1) * 5000, "a list of lists"),
        (head({})[:16] + struct.pack("<QQ", 1, 1) + b"k" + struct.pack("<I", 77), "unknown kind 77"),
    ],
)
def test_files_that_are_not_models(data: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        header(written(tmp_path, data))
    assert says in str(raised.value).replace(str(tmp_path), "")  # the folder has the test's parameters in its name


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_are_refused_with_our_error(tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int) -> None:
    good = head(QWEN)[:600]
    file = written(tmp_path_factory.mktemp("noise"), good[:at] + noise)
    with suppress(UsageError):
        header(file)


def test_a_folder_or_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a folder, not a GGUF file"):
        header(tmp_path)
    with pytest.raises(UsageError, match=r"gone\.gguf is missing: give the path of a GGUF file, hf:OWNER/NAME"):
        header(tmp_path / "gone.gguf")


FILES = {"README.md": b"hello", "m-Q4_K_M.gguf": head(QWEN), "m-Q8_0.gguf": head(QWEN) + b"8", "mmproj-m.gguf": b"x"}


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    listed = json.dumps({"id": "some/model", "sha": COMMIT, "siblings": [{"rfilename": file} for file in FILES]})
    served = {f"/some/model/resolve/{at}/{name}": data for at in (COMMIT, "main") for name, data in FILES.items()}
    with serving_hub({"/api/models/some/model": listed.encode(), **served}, missing="RepoNotFound") as hub:
        yield hub.url


def fetched(text: str, endpoint: str, home: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the hub's client reads its settings once."""
    code = f"from sureenough.engines.local.models import fetch\nprint(fetch({text!r}))"
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("proxy")}
    env |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=env
    )


@pytest.mark.parametrize(
    ("text", "repository", "file"),
    [
        ("hf:a/b", "a/b", None),
        ("hf:a/b-GGUF:q4.gguf", "a/b-GGUF", "q4.gguf"),
        ("hf:a/b:sub/q.gguf", "a/b", "sub/q.gguf"),
    ],
)
def test_names(text: str, repository: str, file: str | None) -> None:
    assert parse_hub_name(text) == HubFile(repository, file)


@pytest.mark.parametrize("text", ["hf:", "hf:a", "hf:a/b/c", "hf:a/b:", "hf:../x y"])
def test_names_that_are_not_valid(text: str) -> None:
    with pytest.raises(UsageError, match="it looks like hf:OWNER/NAME"):
        parse_hub_name(text)


@pytest.mark.parametrize(
    ("files", "wish", "found"),
    [
        (["a.gguf", "README.md"], None, "a.gguf"),
        (["a-Q4.gguf", "a-Q8.gguf"], "q8", "a-Q8.gguf"),
        (["a-Q4.gguf", "mmproj-a.gguf"], None, "a-Q4.gguf"),
        (["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"], None, "a-00001-of-00002.gguf"),
        ([f"a-{n:05}-of-00012.gguf" for n in range(1, 13)], None, "a-00001-of-00012.gguf"),
        (["tiny.gguf", "very-tiny.gguf"], "tiny.gguf", "tiny.gguf"),
    ],
)
def test_the_file_that_a_name_selects(files: list[str], wish: str | None, found: str) -> None:
    assert choose_file(files, HubFile("a/b", wish)) == found


@pytest.mark.parametrize(
    ("files", "wish", "says"),
    [
        (["a-Q4.gguf", "a-Q8.gguf"], None, r"has 2 files; choose one, as in hf:a/b:a-Q4.gguf. It has: a-Q4"),
        (["a-Q4.gguf"], "q5", r"has no file like 'q5'.* It has: a-Q4.gguf"),
        (["model.safetensors"], None, "has no GGUF files"),
    ],
)
def test_the_file_is_not_clear(files: list[str], wish: str | None, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        choose_file(files, HubFile("a/b", wish))


def test_a_download_and_the_second_time(hub: str, tmp_path: Path) -> None:
    done = fetched("hf:some/model:q8_0", hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_bytes() == FILES["m-Q8_0.gguf"]
    again = fetched("hf:some/model:m-Q8_0.gguf", "http://127.0.0.1:9", tmp_path)
    assert (again.returncode, again.stdout) == (0, done.stdout), "what is here needs no network"


def test_what_the_hub_does_not_have(hub: str, tmp_path: Path) -> None:
    says = "UsageError: the hub has no some/other, or it needs a token (HF_TOKEN)"
    assert says in fetched("hf:some/other", hub, tmp_path).stderr


def test_without_a_network_the_error_names_what_is_here(tmp_path: Path) -> None:
    said = fetched("hf:some/model:m-Q8_0.gguf", "http://127.0.0.1:9", tmp_path).stderr
    assert "EngineUnavailable: the hub cannot be reached for some/model" in said
    assert "give the path of a GGUF file, or no model for the built-in one" in said
