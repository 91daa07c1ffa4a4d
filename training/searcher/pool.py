"""Make a pool of the files that evaluate.py kept: `python -m searcher.pool POOL.parquet QUESTIONS.json FILE.xz …`.

Needs sureenough with its dependencies; the machine that samples does not.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from searcher.files import Sampled, load_paths, load_probes

from sureenough.answers import extract
from sureenough.core.probing import ProbeReply
from sureenough.pools.path import RecordedPath, RecordedProbe
from sureenough.pools.rows import Question
from sureenough.pools.schema import PoolInfo
from sureenough.pools.write import PoolWriter

PROBES = ".probes.xz"
"""How the names of the files end that searcher.probe writes."""


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--temperature", type=float, required=True)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--text", action="store_true", help="keep the text of questions and paths")
    parser.add_argument("--half", choices=("dev", "test"), help="every second question: the even or the odd ones")
    parser.add_argument("--dataset", default="countdown and grid", help="the name of the pool in tables")
    arguments = parser.parse_args()
    sampled = [file for file in arguments.files if not file.name.endswith(PROBES)]
    unprobed = [file for file in sampled if file.with_suffix(PROBES) not in arguments.files]
    if has_probes(arguments.files) and unprobed:
        parser.error(f"{unprobed[0]} has no probes, others have: run searcher.probe again, or give no {PROBES} files")
    return arguments


def has_probes(files: list[Path]) -> bool:
    return any(file.name.endswith(PROBES) for file in files)


Probes = dict[tuple[int, int], list[RecordedProbe]]


def probes_of(files: list[Path], chosen: range) -> Probes:
    """The probes of each path, in their order."""
    probes: Probes = defaultdict(list)
    for file in files:
        for one in load_probes(file) if file.name.endswith(PROBES) else ():
            if one.question in chosen:
                answer = None if one.answer is None else str(one.answer)
                probes[one.question, one.number].append(RecordedProbe(one.at, ProbeReply(answer, one.tokens)))
    for of_path in probes.values():
        of_path.sort(key=lambda probe: probe.at)
    return probes


def questions_of(listed: list[list[str]], files: list[Path], chosen: range, text: bool) -> Iterator[Question]:
    """The questions with all their paths, in the order of their numbers.

    The files may come in any order, so all sampled paths are held in 16 bits; those of one question at a time are made
    into recorded paths, which take four times as much.
    """
    paths: dict[int, list[Sampled]] = defaultdict(list)
    for file in files:
        for path in load_paths(file) if not file.name.endswith(PROBES) else ():
            if path.question in chosen:
                paths[path.question].append(path)
    probes = probes_of(files, chosen)
    probed = has_probes(files)
    for number in sorted(paths):
        question_id, question, gold, level = listed[number]
        sampled = sorted(paths.pop(number), key=lambda one: one.number)
        recorded = [recorded_path(one, text, probes, probed) for one in sampled]
        yield Question(question_id, gold, int(level), recorded, question if text else None)


def recorded_path(path: Sampled, text: bool, probes: Probes, probed: bool) -> RecordedPath:
    """A path as pools keep it; one that did not finish has no answer."""
    words = path.text.decode(errors="replace")
    return RecordedPath(
        extract(words) if path.finished else None,
        path.peak.astype("float64"),
        path.conf.astype("float64"),
        number=path.number,
        finish="stop" if path.finished else "length",
        text=words if text else None,
        probes=tuple(probes.pop((path.question, path.number), ())) if probed else None,
    )


def main() -> None:
    """Write the pool, and say what is in it."""
    arguments = options()
    listed = json.loads(arguments.questions.read_text())
    first = 1 if arguments.half == "test" else 0
    chosen = range(first, len(listed), 2 if arguments.half else 1)
    info = PoolInfo(
        dataset=", ".join(filter(None, (arguments.dataset, arguments.half))),
        model="sureenough-searcher",
        engine="training/searcher/sampler.py",
        sampling={"temperature": arguments.temperature, "top_p": arguments.top_p},
        prompt="{question}",
    )
    optional = [*(("text", "question_text") if arguments.text else ()), *(("probes",) * has_probes(arguments.files))]
    count = paths = 0
    with PoolWriter(arguments.pool, info, optional=optional) as writer:
        for question in questions_of(listed, arguments.files, chosen, arguments.text):
            writer.write(question)
            count, paths = count + 1, paths + len(question.paths)
    print(f"{arguments.pool}: {count} questions, {paths} paths")


if __name__ == "__main__":
    main()
