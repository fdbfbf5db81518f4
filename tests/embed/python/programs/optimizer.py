"""DistributedOptimizer: what the inner optimizer gets, and when."""

import numpy as np

import rondo
from checks import expect, raises

rondo.init()
RANK, SIZE = rondo.rank(), rondo.size()


class Inner:
    learning_rate = 0.5

    def __init__(self):
        self.calls = []

    def apply_gradients(self, grads_and_vars, *, clip=None):
        self.calls.append((list(grads_and_vars), clip))
        return len(self.calls)


def gradients(step):
    """A hundred small gradients, a large one, and one that is None."""
    made = [(np.full((n % 5, 3), float(RANK + n + step), np.float32), f"v{n}") for n in range(100)]
    return [*made, (np.full(2_000_000, float(RANK + step)), "large"), (None, "frozen")]


def check(pairs, factor, *steps):
    expect([variable for _, variable in pairs] == [variable for _, variable in gradients(0)], "variables in their order")
    ranks = sum(range(SIZE)) / SIZE
    for n, (gradient, _) in enumerate(pairs[:-2]):
        expect(gradient.dtype == np.float32 and gradient.shape == (n % 5, 3), f"gradient {n}")
        expect(np.allclose(gradient, factor * sum(ranks + n + step for step in steps), rtol=1e-6), f"gradient {n}: {gradient}")
    expect(np.allclose(pairs[-2][0], factor * sum(ranks + step for step in steps)) and pairs[-1][0] is None, "the last ones")


inner = Inner()
outer = rondo.DistributedOptimizer(inner)
given = gradients(0)
expect(outer.apply_gradients(given, clip=7) == 1, "what it returns is handed on")
check(inner.calls[0][0], 1, 0)
expect(inner.calls[0][1] == 7 and given[1][0][0, 0] == RANK + 1, "named arguments are handed on, gradients are as they were")
outer.learning_rate = 0.25
expect(inner.learning_rate == 0.25 and outer.learning_rate == 0.25 and outer.calls is inner.calls, "attributes are the inner one's")

inner = Inner()
outer = rondo.DistributedOptimizer(inner, op=rondo.Sum)
outer.apply_gradients(gradients(0))
check(inner.calls[0][0], SIZE, 0)

for averages in (False, True):
    inner = Inner()
    outer = rondo.DistributedOptimizer(inner, backward_passes_per_step=3, average_aggregated_gradients=averages)
    for step in range(6):
        done = outer.apply_gradients(gradients(step))
        expect((done is not None) == (step % 3 == 2), "it is applied in every third pass")
    check(inner.calls[0][0], 1 / 3 if averages else 1, 0, 1, 2)
    check(inner.calls[1][0], 1 / 3 if averages else 1, 3, 4, 5)

# An average over passes is correct if it fits its type, even if the sum does not fit, and also for the smallest values.
floats = [(np.dtype(np.float16), (40000, 2.0**-24)), (np.dtype(np.float32), (3e38, 2.0**-149)), (np.dtype(np.float64), (1.7e308, 2.0**-1074))]
try:
    import ml_dtypes
except ImportError:
    print("no ml_dtypes here")
else:
    floats.append((np.dtype(ml_dtypes.bfloat16), (3e38, 2.0**-133)))
for dtype, values in floats:
    for passes in (3, 4):
        calls = []
        outer = rondo.DistributedOptimizer(calls.append, backward_passes_per_step=passes, average_aggregated_gradients=True)
        for _ in range(passes):
            outer([(np.full(2, value, dtype), "v") for value in values])
        averages = rondo.grouped_allreduce([np.full(2, value, dtype) for value in values])  # rounded in the same way
        for (got, _), one, value in zip(calls[0], averages, values):
            expect(got.dtype == dtype and np.isfinite(got).all() and (got == one).all(), f"an average of {passes} passes of {dtype} {value}: {got}")
            expect(SIZE > 1 or (got == dtype.type(value)).all(), f"{got}, not {value}")
outer = rondo.DistributedOptimizer(calls.append, backward_passes_per_step=2, average_aggregated_gradients=True)
with raises(TypeError, "average_aggregated_gradients", "int32"):
    outer([(np.ones(2, np.int32), "v")])

calls = []
outer = rondo.DistributedOptimizer(calls.append, op=rondo.Sum, backward_passes_per_step=2)
for _ in range(2):
    outer([(np.array(1.5, np.float32), "no dimensions"), (np.float64(2), "a scalar"), (np.asfortranarray(np.ones((2, 3))), "columns")])
(none, _), (scalar, _), (columns, _) = calls[0]
expect(none.shape == () and none == 3 * SIZE and none.dtype == np.float32, "a gradient without dimensions")
expect(scalar == 4 * SIZE and (columns == 2 * SIZE).all(), "sums of two passes")

calls = []
outer = rondo.DistributedOptimizer(calls.append, compression=rondo.Compression.fp16)
outer([(np.full(3, 1 / 3, np.float32), "v")])
expect(calls[0][0][0].dtype == np.float32 and calls[0][0][0][0] == np.float32(np.float16(1 / 3)), "a function, and float16 on the way")

with raises(TypeError, "apply_gradients"):
    rondo.DistributedOptimizer(object())
with raises(ValueError, "at least 1"):
    rondo.DistributedOptimizer(inner, backward_passes_per_step=0)
outer = rondo.DistributedOptimizer(inner, backward_passes_per_step=2)
outer.apply_gradients(gradients(0))
with raises(ValueError, "102"):
    outer.apply_gradients(gradients(0)[1:])
rondo.shutdown()
