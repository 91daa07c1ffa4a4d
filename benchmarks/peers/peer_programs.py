"""The other packages of the comparison, and how a program runs in the environment of one."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sureenough as se

HERE = Path(__file__).parent
WARMUP = 16


@dataclass(frozen=True)
class Peer:
    """Another package: how it is installed, the program that runs it, and its systems."""

    install: str
    program: str
    systems: tuple[str, ...]


PEERS = {
    "adaptive": Peer(
        "AdaptiveConsistency==1.0.0 numpy scipy", "run_adaptive_consistency.py", ("AdaptiveConsistency beta",)
    ),
    "its_hub": Peer("'its_hub[lm]==1.2.0'", "run_its_hub.py", ("its_hub sc", "its_hub adaptive", "its_hub beta")),
    "deepconf": Peer(
        "deepconf==0.1.0 numpy", "run_deepconf.py", ("deepconf low", "deepconf low, majority", "deepconf high")
    ),
    "optillm": Peer("optillm==0.4.0", "run_optillm.py", ("optillm self_consistency", "optillm majority_voting")),
    "lm_eval": Peer("'lm_eval[api]==0.4.13'", "run_lm_eval.py", ("lm_eval majority_vote",)),
    "thinkbooster": Peer(
        "thinkbooster==0.1.1", "run_thinkbooster.py", ("thinkbooster sc", "thinkbooster deepconf low")
    ),
    "inspect": Peer("inspect-ai==0.3.285 openai", "run_inspect.py", ("inspect_ai mode",)),
}


@dataclass(frozen=True)
class Recording:
    """A pool as the programs of peers read it."""

    pool: Path
    paths: int
    window: int
    questions: list[dict[str, Any]]

    @classmethod
    def read(cls, file: Path, paths: int) -> Recording:
        """The first paths of each question; one without its text is nothing but its boxed answer."""
        pool = se.Pool(file)
        rows = [
            {
                "id": question.id,
                "question": question.text,
                "gold": question.gold,
                "paths": [
                    {
                        "text": path.text or ("" if path.answer is None else f"\\boxed{{{path.answer}}}"),
                        "answer": path.answer,
                        "conf": [float(value) for value in path.conf],
                    }
                    for path in question.paths[:paths]
                ],
            }
            for question in pool
        ]
        return cls(file, paths, pool.window(), rows)

    def lines(self, environments: Path, name: str, system: str, url: str = "") -> list[Any]:
        """What a peer's program prints about these questions, run by the Python of the peer's environment."""
        job = {"system": system, "url": url, "model": "recorded", "paths": self.paths, "window": self.window}
        command = [str(environments / name / "bin" / "python"), str(HERE / "inside" / PEERS[name].program)]
        text = json.dumps({**job, "warmup": WARMUP, "questions": self.questions})
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=3600, check=False)
        if done.returncode:
            raise RuntimeError(f"{system} failed:\n{done.stderr[-2000:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]
