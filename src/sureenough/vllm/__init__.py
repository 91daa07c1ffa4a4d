"""Inside vLLM: the monitor that watches paths in the server, and vLLM as an engine of this process."""
