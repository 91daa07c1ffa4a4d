"""Watching paths inside vLLM: what the client sends, and the monitor that runs in the server."""
