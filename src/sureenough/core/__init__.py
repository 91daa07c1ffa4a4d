"""The pure core: told what happened, says what it wants next. No I/O, no clock, no randomness."""
