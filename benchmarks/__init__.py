"""Speed as ratios in one run: `make bench`. Each module here has `bars() -> list[Bar]`."""
