"""Which strategy suits the questions in your CSV file? Sample every question once, then compare on the same paths.

python examples/compare_csv.py [QUESTIONS.csv]    # columns: question, gold, and optionally id, kind, level
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sureenough as se

QUESTIONS = """question,gold
What is (3+4)*12-7?,77
Solve for x: 6x=42.,7
What is the remainder when 4110 is divided by 37?,3
What is 592*44+(458+893+308*89)?,54811
"""


def main() -> None:
    with TemporaryDirectory() as folder:
        questions, pool = Path(folder, "questions.csv"), Path(folder, "pool.parquet")
        questions.write_text(Path(sys.argv[1]).read_text("utf-8") if sys.argv[1:] else QUESTIONS, "utf-8")
        # Add --url and --model for a server of your own. The command can be repeated: it samples what is missing.
        record = ["record", str(questions), "-o", str(pool), "--paths", "12"]
        subprocess.run([sys.executable, "-m", "sureenough", *record], check=True, stderr=subprocess.DEVNULL)
        for row in se.compare(pool, ["sc", "ac", "sure"], repeats=5):
            print(
                f"{row.strategy:5} {row.accuracy:6.1%} right {row.tokens:7.0f} tokens per question {row.saving:4.1f}x"
            )


if __name__ == "__main__":
    main()
