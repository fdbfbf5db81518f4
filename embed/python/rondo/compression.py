"""Compression of gradients before they are sent."""

from __future__ import annotations

import numpy as np


class _None:
    """No compression."""

    @staticmethod
    def compress(array):
        return array, None

    @staticmethod
    def decompress(array, before):
        return array


class _Fp16:
    """float32 and float64 are rounded to float16, sent, and converted back. Other types are not changed."""

    @staticmethod
    def compress(array):
        if array.dtype in (np.float32, np.float64):
            return array.astype(np.float16), array.dtype
        return array, None

    @staticmethod
    def decompress(array, before):
        return array if before is None else array.astype(before)


class Compression:
    """The `compression` argument: none, or fp16, which sends float32 and float64 as float16."""

    none = _None
    fp16 = _Fp16
