"""Programs that engines start, to their end or as workers that stay, and the place where they run."""
