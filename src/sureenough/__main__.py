"""`python -m sureenough` and the console script: Ctrl-C is quiet even while modules load."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from sureenough.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
