"""The devices for the tensors of the programs here."""

import contextlib

import torch


class FakeStream:
    """The torch.cuda.Stream of the fake device. It has few streams and returns them in turn."""

    made = []
    given = 0

    def __init__(self, _device=None):
        import fake_cuda

        if len(self.made) < 8:
            self.made.append(fake_cuda.new_stream())
        self._cdata, self.cuda_stream = self.made[FakeStream.given % 8]
        FakeStream.given += 1


class FakeGraph:
    """The torch.cuda.CUDAGraph of the fake device."""

    def __init__(self, fake):
        self.fake, self.made = fake, 0

    def replay(self):
        self.fake.launch(self.made)


class Device:
    """cpu, cuda, or fake: the CUDA device of a torch that has none, on the fake driver."""

    def __init__(self, name):
        self.fake = None
        self.captures = False  # whether the fake device is capturing
        self.torch = torch.device("cuda:0" if name == "fake" else name)
        if name == "fake":
            import fake_cuda

            self.fake = fake_cuda
            torch.cuda._lazy_init = lambda: None
            torch.cuda.Stream = FakeStream
            torch.cuda.is_current_stream_capturing = lambda: self.captures

    @contextlib.contextmanager
    def stream(self):
        """A stream of its own is the current one."""
        stream = torch.cuda.Stream(self.torch)
        if self.fake is None:
            with torch.cuda.stream(stream):
                yield
            return
        before = self.fake.exchange_stream(stream._cdata)
        try:
            yield
        finally:
            self.fake.exchange_stream(before)

    @contextlib.contextmanager
    def busy(self):
        """The current stream comes to nothing new meanwhile; on a GPU for about as long as a test looks at it."""
        if self.fake is None:
            torch.cuda._sleep(2_000_000_000)
            yield
            return
        stream = self.fake.current_stream()
        self.fake.hold(stream)
        try:
            yield
        finally:
            self.fake.release(stream)

    @contextlib.contextmanager
    def graph(self):
        """What is put on the current stream meanwhile becomes a graph, and is done at each replay() of what this gives. On
        the fake device that is no computation of torch's."""
        if self.fake is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                yield graph
            return
        graph = FakeGraph(self.fake)
        self.fake.begin_capture()
        self.captures = True
        yield graph
        self.captures = False
        graph.made = self.fake.end_capture()

    def synchronize(self):
        """Waits until the work of the current stream has ended."""
        if self.fake is None:
            torch.cuda.current_stream().synchronize()
        else:
            self.fake.synchronize()
