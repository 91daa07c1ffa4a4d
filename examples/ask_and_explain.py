"""Ask a question, read the answer, and let the outcome explain itself.

With a server of your own: `engine = se.OpenAI("http://localhost:8000/v1", model="Qwen/Qwen3-4B")`.
"""

from __future__ import annotations

import sureenough as se


def main() -> None:
    engine = se.Local()  # the tiny model that comes with the package: school arithmetic only
    out = se.ask("Solve for x: 5(8x-61)+630=17x+3614.", engine, "sure", paths=24, seed=1)
    print("answer:", out.answer)
    print("votes: ", {answer: round(weight, 2) for answer, weight in out.votes.items()})
    print("tokens:", out.tokens.total, "in", out.started, "paths;", out.tokens.discarded, "of them discarded")
    print()
    print(out.explain())


if __name__ == "__main__":
    main()
