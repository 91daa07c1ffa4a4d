"""The pure core: it receives events and returns actions. No I/O, no clock, no randomness but that of the run's seed."""
