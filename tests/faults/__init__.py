"""Runs in processes of their own that are killed, stopped, starved and cut off, and what must hold all the same.

    python -m tests.faults --faults 500 --seed 7

A round is one project, one board, one kind of fault, injected several times; the command is started again until it
ends, and then the books are checked: no commit lost or made twice, no push and no answered call made twice, nothing
left behind.
"""
