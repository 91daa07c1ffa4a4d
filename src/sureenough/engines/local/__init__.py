"""Models on this machine: llama.cpp's server in this process."""
