"""Detects that two threads make groups at the same time."""

import threading


class OneAtATime:
    """A context for the time in which a group of torch.distributed is made. RuntimeError if another thread makes a group at that time.

    torch names a group by the number of earlier groups. If two groups are made at the same time, ranks may number them differently, and
    a group would contain ranks of both. So both groups fail. Threads that are different ranks have another `rank`, and may make groups
    at the same time."""

    WORDS = ("rondo: two threads of this process made groups at once, so it is not known which ranks belong together: make one group after the "
             "other, in the same order on all ranks")  # fmt: skip
    _lock = threading.Lock()
    _all = set()

    def __init__(self, rank, size):
        self._of, self.is_disturbed = (rank, size), False

    def __enter__(self):
        with self._lock:
            others = [other for other in self._all if other._of == self._of]
            for one in [*others, self] if others else []:
                one.is_disturbed = True
            self._all.add(self)
        if self.is_disturbed:
            self.__exit__(None)
        return self

    def __exit__(self, kind, *_):
        with self._lock:
            self._all.discard(self)
        if self.is_disturbed and (kind is None or issubclass(kind, Exception)):
            raise RuntimeError(self.WORDS)
