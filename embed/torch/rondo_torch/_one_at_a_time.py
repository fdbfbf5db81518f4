"""Finds out that two threads make groups at once."""

import threading


class OneAtATime:
    """While a group of torch.distributed is made. torch names groups by how many there were before, so where two are made at once the
    ranks may each take another one for the first, and sums would be of ranks that do not belong together: both are given up. Threads
    that are ranks of their own differ in `rank`, and make their groups at once."""

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
