"""What runs inside vLLM's own processes: the logits processor, the middleware and the records of watched paths."""
