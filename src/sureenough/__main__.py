"""`python -m sureenough` is the command line."""

from __future__ import annotations

from sureenough.cli import main

if __name__ == "__main__":
    main()
