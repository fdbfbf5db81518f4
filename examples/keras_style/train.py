#!/usr/bin/env python3
"""Data-parallel training in the style of Keras, on Rondo and NumPy alone, on data that it makes itself.

    rondo run -N 4 python3 examples/keras_style/train.py

The model is a few dense layers with compile and fit. What makes it distributed are the four lines that Horovod's users know:
rondo.init(), a learning rate times rondo.size(), rondo.DistributedOptimizer, and the callbacks below. The batch is that of all
ranks together, so the losses are the same for any number of ranks.
"""

import argparse

import numpy as np

import rondo


class Variable:
    """A tensor of the model's."""

    def __init__(self, name, value):
        self.name, self.value = name, value.astype(np.float32)


class Dense:
    """A layer: activation(inputs @ kernel + bias)."""

    def __init__(self, units, activation=None):
        self.units, self.activation = units, activation

    def build(self, name, inputs, random):
        spread = np.sqrt(2 / inputs)
        self.kernel = Variable(f"{name}/kernel", random.normal(0, spread, (inputs, self.units)))
        self.bias = Variable(f"{name}/bias", np.zeros(self.units))

    def forward(self, inputs):
        self.inputs = inputs
        outputs = inputs @ self.kernel.value + self.bias.value
        if self.activation == "relu":
            outputs = np.maximum(outputs, 0)
            self.alive = outputs > 0
        return outputs

    def backward(self, gradient):
        """The gradient of the inputs, and those of kernel and bias."""
        if self.activation == "relu":
            gradient = gradient * self.alive
        return gradient @ self.kernel.value.T, [(self.inputs.T @ gradient, self.kernel), (gradient.sum(axis=0), self.bias)]


class SGD:
    """With momentum; apply_gradients as Keras's optimizers have it."""

    def __init__(self, learning_rate, momentum=0.9):
        self.learning_rate, self.momentum, self.velocities = learning_rate, momentum, {}

    def apply_gradients(self, grads_and_vars):
        for gradient, variable in grads_and_vars:
            velocity = self.momentum * self.velocities.get(variable.name, 0) - self.learning_rate * gradient
            self.velocities[variable.name] = velocity
            variable.value += velocity


class Callback:
    """What fit calls."""

    def on_train_begin(self, model):
        pass

    def on_epoch_end(self, epoch, logs):
        pass


class BroadcastParameters(Callback):
    """All ranks begin with the parameters of one."""

    def __init__(self, root_rank=0):
        self.root_rank = root_rank

    def on_train_begin(self, model):
        rondo.broadcast_parameters({variable.name: variable.value for variable in model.variables}, self.root_rank)


class AverageMetrics(Callback):
    """What an epoch reports is the mean over all ranks."""

    def on_epoch_end(self, epoch, logs):
        for name in sorted(logs):
            logs[name] = float(rondo.allreduce(np.float64(logs[name]), name=name))


class Print(Callback):
    def on_epoch_end(self, epoch, logs):
        print(f"epoch {epoch}  loss {logs['loss']:.6f}  error {logs['error']:.6f}", flush=True)


class Model:
    def __init__(self, layers, inputs, seed):
        self.layers, random = layers, np.random.default_rng(seed)
        for number, layer in enumerate(layers):
            layer.build(f"dense_{number}", inputs, random)
            inputs = layer.units
        self.variables = [variable for layer in layers for variable in (layer.kernel, layer.bias)]

    def compile(self, optimizer):
        self.optimizer = optimizer

    def __call__(self, points):
        for layer in self.layers:
            points = layer.forward(points)
        return points

    def train_on_batch(self, points, wanted):
        """The mean square error, and the mean absolute one."""
        wrong = self(points) - wanted
        gradient, pairs = (2 / wrong.size) * wrong, []
        for layer in reversed(self.layers):
            gradient, own = layer.backward(gradient)
            pairs += own
        self.optimizer.apply_gradients(pairs)
        return {"loss": float(np.mean(wrong**2)), "error": float(np.mean(np.abs(wrong)))}

    def fit(self, batches, epochs, callbacks):
        """`batches`: a function from the number of an epoch to its batches."""
        for callback in callbacks:
            callback.on_train_begin(self)
        for epoch in range(epochs):
            steps = [self.train_on_batch(*batch) for batch in batches(epoch)]
            logs = {name: float(np.mean([step[name] for step in steps])) for name in steps[0]}
            for callback in callbacks:
                callback.on_epoch_end(epoch, logs)


def make_data(samples):
    """Points of 16 dimensions, and the labels that an unknown network gives them."""
    random = np.random.default_rng(7)
    points = random.normal(size=(samples, 16)).astype(np.float32)
    hidden = np.tanh(points @ random.normal(size=(16, 8)).astype(np.float32) / 4)
    return points, hidden @ random.normal(size=(8, 3)).astype(np.float32)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--samples", type=int, default=2048, help="number of samples in the data set")
    parser.add_argument("--batch", type=int, default=64, help="number of samples in one step, of all ranks together")
    parser.add_argument("--accumulate", type=int, default=1, metavar="PASSES", help="number of batches for one step of the optimizer")
    parser.add_argument("--rate", type=float, default=0.0004, help="learning rate for each sample of a batch")
    parser.add_argument("--fp16", action="store_true", help="send gradients as float16")
    return parser.parse_args()


def main():
    options = parse()
    rondo.init()
    if options.batch % rondo.size() != 0:
        raise SystemExit(f"a batch of {options.batch} cannot be divided evenly among {rondo.size()} ranks")
    own_batch = options.batch // rondo.size()
    points, wanted = make_data(options.samples)

    def batches(epoch):
        """This rank's part of every batch; the order is another one in each epoch, and the same on all ranks."""
        order = np.random.default_rng(epoch).permutation(options.samples)
        for first in range(0, options.samples - options.batch + 1, options.batch):
            own = order[first : first + options.batch][rondo.rank() :: rondo.size()]
            yield points[own], wanted[own]

    # Each rank draws its own initial parameters; the callback replaces them by rank 0's.
    model = Model([Dense(64, "relu"), Dense(64, "relu"), Dense(3)], inputs=16, seed=rondo.rank())
    optimizer = SGD(learning_rate=options.rate * own_batch * rondo.size())
    model.compile(rondo.DistributedOptimizer(
        optimizer, compression=rondo.Compression.fp16 if options.fp16 else rondo.Compression.none,
        backward_passes_per_step=options.accumulate, average_aggregated_gradients=True))  # fmt: skip
    callbacks = [BroadcastParameters(), AverageMetrics()]
    if rondo.rank() == 0:
        callbacks.append(Print())
    model.fit(batches, options.epochs, callbacks)
    rondo.shutdown()


if __name__ == "__main__":
    main()
