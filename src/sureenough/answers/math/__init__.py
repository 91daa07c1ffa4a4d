"""Mathematical answers: tokens, exact arithmetic, and the keys by which they are compared."""
