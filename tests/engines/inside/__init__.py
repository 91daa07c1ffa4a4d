"""Tests of the monitor that runs inside vLLM."""
