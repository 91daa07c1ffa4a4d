"""Make a pool of what record.py sampled: `python -m searcher.pool RUN POOL.parquet --half dev`.

Needs sureenough with its dependencies; the machine that samples does not.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from searcher.files import Sampled, load_paths

from sureenough.answers import extract
from sureenough.pools.path import Question, RecordedPath
from sureenough.pools.schema import PoolInfo
from sureenough.pools.write import PoolWriter


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--name", default="pool", help="pool, or wide: the files RUN/NAME.*.xz")
    parser.add_argument("--text", action="store_true", help="keep the text of questions and paths")
    parser.add_argument("--half", choices=("dev", "test"), help="every second question: the even or the odd ones")
    parser.add_argument("--dataset", default="countdown and grid", help="the name of the pool in tables")
    return parser.parse_args()


def questions_of(
    listed: list[list[str]], files: Sequence[Path], chosen: range, text: bool = False
) -> Iterator[Question]:
    """The questions with all their paths, in the order of their numbers.

    The files come in any order, so all sampled paths are held in 16 bits; those of one question at a time are made
    into recorded paths, which take four times as much.
    """
    paths: dict[int, list[Sampled]] = defaultdict(list)
    for file in files:
        for path in load_paths(file):
            if path.question in chosen:
                paths[path.question].append(path)
    for number in sorted(paths):
        question_id, question, gold, level = listed[number]
        sampled = sorted(paths.pop(number), key=lambda one: one.number)
        yield Question(question_id, gold, int(level), [recorded_path(one, text) for one in sampled],
                       question if text else None)  # fmt: skip


def recorded_path(path: Sampled, text: bool) -> RecordedPath:
    """A path as pools keep it; one that did not finish has no answer."""
    words = path.text.decode(errors="replace")
    return RecordedPath(
        extract(words) if path.finished else None,
        path.peak.astype("float64"),
        path.conf.astype("float64"),
        number=path.number,
        finish="stop" if path.finished else "length",
        text=words if text else None,
    )


def main() -> None:
    """Write the pool, and say what is in it."""
    arguments = options()
    listed = json.loads((arguments.run / f"{arguments.name}-questions.json").read_text())
    sampling = json.loads((arguments.run / "temperature.json").read_text())
    files = sorted(arguments.run.glob(f"{arguments.name}.*.xz"))
    if not files:
        raise SystemExit(f"{arguments.run} has no {arguments.name}.*.xz: searcher.job samples them")
    chosen = range(arguments.half == "test", len(listed), 2 if arguments.half else 1)
    info = PoolInfo(
        dataset=", ".join(filter(None, (arguments.dataset, arguments.half))),
        model="sureenough-searcher",
        engine="training/searcher/sampler.py",
        sampling={name: sampling[name] for name in ("temperature", "top_p")},
        prompt="{question}",
    )
    optional = ["text", "question_text"] if arguments.text else []
    count = paths = 0
    with PoolWriter(arguments.pool, info, optional=optional) as writer:
        for question in questions_of(listed, files, chosen, arguments.text):
            writer.write(question)
            count, paths = count + 1, paths + len(question.paths)
    print(f"{arguments.pool}: {count} questions, {paths} paths")


if __name__ == "__main__":
    main()
