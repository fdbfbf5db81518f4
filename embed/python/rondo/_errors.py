"""What goes wrong in Rondo, as exceptions that hold every field of a rondo_error."""

from __future__ import annotations

from ctypes import byref

from . import _library
from ._library import lib


class RondoError(RuntimeError):
    """An error of Rondo's. str() of it is `text`, which is what to show to people.

    code         its number, of rondo.h; `code_name` is its name: "peer_lost"
    rank         that reports; -1: none
    culprit      the rank that caused it, where known; else -1
    host         of the culprit; address: of the culprit, or that failed; interface: the local network interface
    collective   "all_reduce float32 x 1000 sum"; sequence: its number on this communicator; step: of its schedule
    message, first_cause, bytes_done, bytes_due: as in rondo.h
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
        """The same, of the tensor that the caller calls so."""
        if name:
            self.text = f"{name}: {self.text}"
        return self


def _made_again(kind, fields):
    error = kind(fields["code"], fields["text"])
    error.__dict__.update(fields)
    return error


class InvalidArgument(RondoError, ValueError):
    """The call makes no sense; nothing was started, and nothing is broken."""


class NotInitialized(InvalidArgument):
    """A call before rondo.init(), or in a child of the process that made it."""


class Unsupported(RondoError):
    """What this build or machine lacks: device memory, say."""


class TimedOut(RondoError, TimeoutError):
    """A deadline passed; the text says who is missing."""


class PeerLost(RondoError, ConnectionError):
    """A rank died: `culprit`, on `host`."""


class Mismatch(RondoError, ValueError):
    """Ranks disagree about an operation; the text has what each of them wants."""


class Aborted(RondoError):
    """rondo.abort() was called on a rank, or a rank ended by an exception, which the text has."""


_CLASSES = {
    _library.INVALID_ARGUMENT: InvalidArgument, _library.UNSUPPORTED: Unsupported, _library.TIMEOUT: TimedOut,
    _library.PEER_LOST: PeerLost, _library.MISMATCH: Mismatch, _library.RENDEZVOUS_TIMEOUT: TimedOut,
    _library.STORE_TIMEOUT: TimedOut, _library.ABORTED: Aborted, _library.PEER_ABORTED: Aborted,
}  # fmt: skip


def taken(code, error):
    """The exception for a code and what the library says of it, which is freed."""
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
    """A function of the library's whose last argument is the error: raises it. Gives OK or NOT_READY."""
    error = _library.ErrorPointer()
    code = function(*arguments, byref(error))
    if code == _library.NOT_READY:
        lib.rondo_error_free(error)
    elif code != _library.OK:
        raise taken(code, error)
    return code
