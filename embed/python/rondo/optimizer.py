"""An optimizer that reduces gradients over all ranks before it applies them."""

from __future__ import annotations

import numpy as np

from ._arrays import View
from ._group import collective
from ._reductions import Average, grouped_allreduce, grouped_allreduce_
from .compression import Compression


# For an average over passes, values are summed in a type with larger exponents, because the sum may not fit their own type.
# bfloat16 has the exponents of float32.
_WIDER = {"float16": np.float32, "bfloat16": np.float64, "float32": np.float64, "float64": np.longdouble}


class _Sum:
    """The sum, or the average, of a variable's gradients over the passes of one step."""

    def __init__(self, view, averages):
        view.reducible()
        if view.array.dtype.kind in "iu" and "float" in view.dtype:  # NumPy shows types that it lacks as integers
            raise TypeError(f"NumPy can add {view.dtype} only if the package ml_dtypes is installed")
        if averages and "float" not in view.dtype:
            raise TypeError(f"average_aggregated_gradients: expected gradients of a floating type, got {view.dtype}")
        self._dtype, self._averages = view.array.dtype, averages
        self._sum = np.array(view.array, _WIDER[view.dtype] if averages else self._dtype)
        self._view = View(self._sum) if isinstance(view.given, np.ndarray) else view  # does not keep the first pass's array

    def add(self, view):
        np.add(self._sum, view.array, out=self._sum)  # a plain sum of arrays without dimensions would be no array

    def result(self, passes):
        """The sum or the average, as an array of the gradients' type."""
        if not self._averages:
            return self._sum
        self._sum /= passes
        return self._sum.astype(self._dtype)

    def like(self, result):
        """`result` as an array of the gradients' library."""
        return self._view.like(result)


class DistributedOptimizer:
    """Wraps an optimizer and reduces gradients over all ranks before the optimizer applies them. Small gradients are reduced together.

    `optimizer` has a method apply_gradients([(gradient, variable), ...]), as Keras optimizers have, or is a function that takes such a
    list. Variables, and gradients that are None, are passed on unchanged. All other attributes are read from and set in `optimizer`.

    op                        Average or Sum; equal on all ranks
    compression               Compression.fp16: float32 and float64 are sent as float16
    backward_passes_per_step  the number of calls of apply_gradients for one step, at least 1. This rank adds up the gradients of these
                              calls. The last call reduces and applies them. The others return None.
    average_aggregated_gradients
                              if true, the sum over these calls is divided by their number. The sum has a wider type, so the average
                              is right if it fits the gradients' type. Memory for the sum: twice that of the gradients, four times for
                              bfloat16.

    Raises TypeError if `optimizer` is neither, ValueError if backward_passes_per_step is below 1.
    """

    _OWN = ("_optimizer", "_apply", "_op", "_compression", "_passes", "_averages", "_sums", "_passed")

    def __init__(self, optimizer, *, op=Average, compression=Compression.none, backward_passes_per_step=1,
                 average_aggregated_gradients=False):  # fmt: skip
        apply = getattr(optimizer, "apply_gradients", optimizer)
        if not callable(apply):
            raise TypeError(f"{type(optimizer).__name__} has no apply_gradients and is not a function")
        if backward_passes_per_step < 1:
            raise ValueError(f"backward_passes_per_step: expected at least 1, got {backward_passes_per_step}")
        self._optimizer, self._apply, self._op, self._compression = optimizer, apply, op, compression
        self._passes, self._averages = backward_passes_per_step, average_aggregated_gradients
        self._sums, self._passed = [], 0

    def apply_gradients(self, grads_and_vars, *arguments, **named):
        pairs = list(grads_and_vars)
        gradients = self._reduced([gradient for gradient, _ in pairs])
        if gradients is None:
            return None
        return self._apply([(gradient, variable) for gradient, (_, variable) in zip(gradients, pairs)], *arguments, **named)

    __call__ = apply_gradients

    @collective
    def _reduced(self, gradients):
        """The reduced gradients. None if this call is not the last one of its step."""
        if self._passes > 1:
            self._add(gradients)
            if self._passed < self._passes:
                return None
            sums, self._sums, self._passed = self._sums, [], 0
            there = [at for at, one in enumerate(sums) if one is not None]
            added_up = [sums[at].result(self._passes) for at in there]
            grouped_allreduce_(added_up, op=self._op, compression=self._compression)
            reduced = [sums[at].like(result) for at, result in zip(there, added_up)]
            gradients = [None] * len(sums)
        else:
            there = [at for at, gradient in enumerate(gradients) if gradient is not None]
            reduced = grouped_allreduce([gradients[at] for at in there], op=self._op, compression=self._compression)
        for at, gradient in zip(there, reduced):
            gradients[at] = gradient
        return gradients

    def _add(self, gradients):
        if not self._sums:
            self._sums = [None] * len(gradients)
        if len(gradients) != len(self._sums):
            raise ValueError(f"got {len(gradients)} gradients, but the previous passes of this step had {len(self._sums)}")
        for at, gradient in enumerate(gradients):
            if gradient is None:
                continue
            if self._sums[at] is None:
                self._sums[at] = _Sum(View(gradient), self._averages)
            else:
                self._sums[at].add(View(gradient))
        self._passed += 1

    def __getattr__(self, name):
        if name in DistributedOptimizer._OWN:  # if __init__ has not set them yet
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    def __setattr__(self, name, value):
        if name in DistributedOptimizer._OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._optimizer, name, value)
