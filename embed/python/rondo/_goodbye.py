"""Calls a function at every orderly end of a process, so that a rank leaves with a goodbye."""

import atexit
import functools
import multiprocessing.util
import os
import sys

_process = None  # the process in which `say` must be called


def say_at_end(say):
    """Registers say(error), to be called once when this process ends in order: at the end of its program, at the end of a function that
    multiprocessing runs in it, or by os._exit(0). `error` is the exception that ends such a function, otherwise None. A forked child
    must register its own."""
    global _process
    if _process == os.getpid():
        return
    if _process is None:
        atexit.register(_say_here, say)
        os._exit = _saying_first(os._exit, say)
    _process = os.getpid()
    # A child of multiprocessing does not run atexit functions, and drops its parent's registrations here.
    multiprocessing.util.Finalize(None, _say_in_child, (say,), exitpriority=0)


def _say_here(say, error=None):
    if _process == os.getpid():
        say(error)


def _say_in_child(say):
    _say_here(say, sys.exc_info()[1] if multiprocessing.parent_process() else None)


def _saying_first(exit_at_once, say):
    @functools.wraps(exit_at_once)
    def _exit(status):
        try:
            if status == 0:
                _say_here(say)
        finally:
            exit_at_once(status)

    return _exit
