"""Watching paths inside vLLM, on its own device. Nothing here is imported by `import sureenough`."""
