"""The roles: what each asks a model (or runs as a command), and how its answer is read."""
