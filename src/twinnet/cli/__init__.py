"""The command line: one file per verb, no logic. Heavy imports happen inside the verbs."""
