"""Rondo's exceptions. They hold every field of a rondo_error."""

from __future__ import annotations

from ctypes import byref

from . import _library
from ._library import lib


class RondoError(RuntimeError):
    """Base class of Rondo's errors. str() returns `text`, the complete error, to show to the user.

    code         the error code of rondo.h; `code_name` is its name, for example "peer_lost"
    rank         the rank that reports the error; -1: none
    culprit      the rank that caused the error; -1: unknown
    host         the culprit's host; "": unknown
    address      the culprit's address, or the address that failed; "": unknown
    interface    the local network interface; "": unknown
    collective   the operation, for example "all_reduce float32 x 1000 sum"; "": none
    sequence     the number of the operation in the group, from 1; 0: none
    step         the step of this rank's schedule; -1: none
    bytes_done   the bytes of that step that were transferred; `bytes_due`: all bytes of that step
    message      the error without rank, host and operation; `first_cause`: the error that caused it, "" if it is the first
    """

    def __init__(self, code, text, *, rank=-1, culprit=-1, host="", **more):
        super().__init__(text)
        self.code, self.text, self.rank, self.culprit, self.host = code, text, rank, culprit, host
        self.code_name = lib.rondo_code_name(code).decode()
        self.message = more.get("message", text)
        self.address, self.interface = more.get("address", ""), more.get("interface", "")
        self.collective, self.first_cause = more.get("collective", ""), more.get("first_cause", "")
        self.sequence, self.step = more.get("sequence", 0), more.get("step", -1)
        self.bytes_done, self.bytes_due = more.get("bytes_done", 0), more.get("bytes_due", 0)

    def __str__(self):
        return self.text

    def __reduce__(self):  # for pickle and copy: __init__ has other arguments than the exception has fields
        return _made_again, (type(self), self.__dict__)

    def of(self, name):
        """Returns this error with `name`, the caller's name of the tensor, at the beginning of its text. None and "" change nothing."""
        if name:
            self.text = f"{name}: {self.text}"
        return self


def _made_again(kind, fields):
    error = kind(fields["code"], fields["text"])
    error.__dict__.update(fields)
    return error


class InvalidArgument(RondoError, ValueError):
    """An argument is wrong. Nothing was started, and the group stays usable."""


class NotInitialized(InvalidArgument):
    """rondo.init() has not been called in this process, or has been called already. A forked child must call it itself."""


class Unsupported(RondoError):
    """This build or this machine does not support the call, for example arrays in device memory."""


class TimedOut(RondoError, TimeoutError):
    """A deadline passed. The text names the missing ranks."""


class PeerLost(RondoError, ConnectionError):
    """A rank died. `culprit` is the rank, `host` its host."""


class Mismatch(RondoError, ValueError):
    """Ranks disagree about an operation. The text describes the call of each."""


class Aborted(RondoError):
    """rondo.abort() was called on a rank, or the program of a rank ended by an exception. The text quotes the reason."""


_CLASSES = {
    _library.INVALID_ARGUMENT: InvalidArgument, _library.UNSUPPORTED: Unsupported, _library.TIMEOUT: TimedOut,
    _library.PEER_LOST: PeerLost, _library.MISMATCH: Mismatch, _library.RENDEZVOUS_TIMEOUT: TimedOut,
    _library.STORE_TIMEOUT: TimedOut, _library.ABORTED: Aborted, _library.PEER_ABORTED: Aborted,
}  # fmt: skip


def taken(code, error):
    """The exception for a code and the library's error, which this function frees."""
    kind = _CLASSES.get(code, RondoError)
    if not error:  # there was no memory for an error
        return kind(code, lib.rondo_code_name(code).decode())
    texts = ("text", "message", "host", "address", "collective", "first_cause")
    fields = {name: getattr(error.contents, name).decode(errors="replace") for name in texts}
    fields["interface"] = error.contents.interface_.decode(errors="replace")
    numbers = ("rank", "culprit", "step", "sequence", "bytes_done", "bytes_due")
    fields.update({name: getattr(error.contents, name) for name in numbers})
    lib.rondo_error_free(error)
    return kind(code, **fields)


def call(function, *arguments):
    """Calls a library function whose last parameter is rondo_error**. Returns OK or NOT_READY; raises RondoError for other codes."""
    error = _library.ErrorPointer()
    code = function(*arguments, byref(error))
    if code == _library.NOT_READY:
        lib.rondo_error_free(error)
    elif code != _library.OK:
        raise taken(code, error)
    return code
