"""Tests of what runs inside vLLM; `test_served*` need a real one."""
