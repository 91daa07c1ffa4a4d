"""`record`, `bench` and `serve` on the nodes of a Ray cluster."""
