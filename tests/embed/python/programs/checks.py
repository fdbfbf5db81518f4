"""Checks for the programs here. A process whose check fails ends."""

import contextlib


def expect(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")


@contextlib.contextmanager
def raises(kind, *words):
    """The body must raise `kind`, with a text that contains all of `words`."""
    try:
        yield
    except kind as error:
        for word in words:
            expect(word in str(error), f"'{word}' in {type(error).__name__}: {error}")
    else:
        raise SystemExit(f"not so: {kind.__name__} is raised, with {words}")
