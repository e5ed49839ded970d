"""What outlives the process: the journal of runs, the result cache, the lessons and the history of executions.

Each is one SQLite file (or one table group of `state.db`) behind `database.Database`.
"""
