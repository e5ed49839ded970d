"""Whole runs, as a user starts them: real git with a bare remote, real HTTP, real processes that are killed."""
