"""The shell around the core: it owns tasks, threads, clocks and the store, and carries out what executions ask for.

It may import `core` and `stores`. It knows no decorators, no `App`, no CLI: those are built on it.
"""
