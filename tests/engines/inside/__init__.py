"""The monitor that runs inside vLLM."""
