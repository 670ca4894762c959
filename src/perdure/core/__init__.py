"""The pure heart: a deterministic loop, the execution that replays a journal on it, keys, entries and values.

Nothing here does I/O, reads a clock or draws a random number: all of that arrives as data inside entries.
"""
