"""Ready descriptions of toolchains for the command engine, and the small programs that some of them start."""
