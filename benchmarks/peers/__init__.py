"""Other tools beside ours, in an environment of their own: `make bench-peers`."""
