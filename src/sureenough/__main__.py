"""`python -m sureenough` and the console script: Ctrl-C is quiet even while modules load."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the command line and run it; --version alone needs none of it."""
    try:
        if sys.argv[1:] == ["--version"]:
            from sureenough import __version__

            print(f"sureenough {__version__}")
            return
        from sureenough.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
