"""Scripts that make what ships; run from the root of the repository, never installed."""
