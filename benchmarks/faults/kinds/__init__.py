"""The faults, by family."""
