"""Boards: other machines, reached by ssh, on which the programs of an engine run."""
