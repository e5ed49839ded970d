"""Git: the one way to run it, the worktrees that attempts work in, and the train that lands their commits."""
