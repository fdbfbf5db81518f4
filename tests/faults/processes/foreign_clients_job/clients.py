"""Foreign clients: what they say at a port, and a crowd of them that comes at a given rate."""

import collections
import contextlib
import heapq
import os
import random
import select
import socket
import ssl
import struct
import time
from dataclasses import dataclass

PORTION = 64  # events handled at once; few, so that new connections begin on time
LORIS_S = 8  # time to send a whole hello: longer than a rank waits for one


@dataclass(frozen=True)
class Kind:
    """What one foreign client does once it is connected.

    Steps: ("say", bytes), ("pause", seconds), ("receive",): until something has come, ("end",): no more will be said,
    ("reset",), ("stay",): until the other side closes. After the last step it closes.
    """

    name: str
    steps: tuple
    unanswered: bool = True  # the job must never send anything to it
    member: bool = False  # its first bytes are right, so the store treats it as a client


@dataclass(frozen=True)
class Port:
    """A port of the job, with the first words that an insider could say there, and what next: {name: bytes}."""

    who: str
    host: str
    number: int
    right: dict
    wrong: dict
    then: dict

    @classmethod
    def from_json(cls, port):
        words = {side: {name: bytes.fromhex(text) for name, text in port[side].items()} for side in ("right", "wrong", "then")}
        return cls(port["who"], port["host"], port["port"], **words)


def client_hello_of_tls():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def kinds_for(port, dice):
    """Every kind that can call at this port. A new kind is a line here; new words are a line in hellos.cc."""
    hello = next(iter(port.right.values()))
    half = len(hello) // 2
    store = port.who == "store"
    yield Kind("connects and closes", ())
    yield Kind("connects and is silent", (("stay",),))
    yield Kind("connects, says that no more will come", (("end",), ("stay",)))
    yield Kind("connects and resets", (("reset",),))
    yield Kind("says the right hello, a byte at a time",
               tuple(step for byte in hello for step in (("say", bytes([byte])), ("pause", LORIS_S / len(hello)))))
    yield Kind("says half of the right hello and closes", (("say", hello[:half]),))
    yield Kind("says half of the right hello and no more", (("say", hello[:half]), ("end",), ("stay",)))
    yield Kind("says half of the right hello and resets", (("say", hello[:half]), ("reset",)))
    yield Kind("says half of the right hello and is silent", (("say", hello[:half]), ("stay",)))
    yield Kind("HTTP", (("say", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), ("stay",)))
    # It gets TLS's own alert and nothing else.
    yield Kind("TLS", (("say", client_hello_of_tls()), ("stay",)), unanswered=False)
    yield Kind("random bytes", (("say", dice.randbytes(dice.randrange(1, 2000))), ("stay",)))
    for name, words in port.right.items():
        yield Kind(f"replays the right hello ({name})", (("say", words), ("receive",), ("pause", 0.05)), unanswered=False,
                   member=store)
        yield Kind(f"replays the right hello ({name}), then random bytes",
                   (("say", words + dice.randbytes(100)), ("pause", 0.2)), unanswered=False, member=store)
        for next_name, next_words in port.then.items():
            yield Kind(f"says the right hello ({name}), then {next_name}",
                       (("say", words), ("receive",), ("say", next_words), ("stay",)), unanswered=False)
    for name, words in port.wrong.items():
        yield Kind(f"wrong: {name}", (("say", words), ("stay",)), unanswered=name == "a huge length")


class HalfOpen:
    """Sends a SYN and never the third packet: our kernel, which knows of no such connection, resets it. Needs raw sockets."""

    def __init__(self):
        try:
            self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
        except PermissionError:
            self.raw = None

    def call(self, port, dice):
        if self.raw is None:
            return
        host = socket.inet_aton(port.host)
        segment = struct.pack("!HHIIBBHHH", dice.randrange(1024, 10000), port.number, dice.getrandbits(32), 0, 5 << 4, 2, 1024, 0, 0)
        words = struct.unpack("!16H", host + host + struct.pack("!HH", socket.IPPROTO_TCP, len(segment)) + segment)
        total = sum(words)
        total = (total & 0xffff) + (total >> 16)
        total = (total & 0xffff) + (total >> 16)
        self.raw.sendto(segment[:16] + struct.pack("!H", ~total & 0xffff) + segment[18:], (port.host, 0))


class ForeignClient:
    """One connection on its way through the steps of its kind."""

    __slots__ = ("kind", "port", "sock", "steps", "received", "staying", "receiving")

    def __init__(self, kind, port, sock):
        self.kind, self.port, self.sock = kind, port, sock
        self.steps = iter(kind.steps)
        self.received = 0
        self.staying = self.receiving = False


class Crowd:
    """Foreign clients that come at a rate and each do what their kind does."""

    def __init__(self):
        self.open = {}  # by descriptor
        self.poll = select.epoll()
        self.timers = []  # (when, tie, descriptor, foreign client)
        self.tie = 0
        self.connected = collections.Counter()  # by port name
        self.kinds = collections.Counter()  # number of connections, by kind name
        self.members = 0  # those that the store treats as clients
        self.answered = []  # foreign clients that got an answer although they must not

    def throw(self, callers, rate):
        """Begins one connection after the other, `rate` a second; `callers` are (port, kind)."""
        begun = time.monotonic()
        for number, (port, kind) in enumerate(callers):
            while (left := begun + number / rate - time.monotonic()) > 0:
                self._serve(left)
            self._begin(port, kind)
            if number % PORTION == 0:
                self._serve(0)
        return begun, time.monotonic()

    def wait(self, patience):
        """Until all have gone; those who have not in time close. How many had not."""
        deadline = time.monotonic() + patience
        while self.open and time.monotonic() < deadline:
            self._serve(0.05)
        left = len(self.open)
        for foreign_client in list(self.open.values()):
            self._close(foreign_client)
        return left

    def _begin(self, port, kind):
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(BlockingIOError):
            sock.connect((port.host, port.number))
        foreign_client = ForeignClient(kind, port, sock)
        self.open[sock.fileno()] = foreign_client
        self.poll.register(sock.fileno(), select.EPOLLOUT)  # signalled when the connection is made or refused

    def _serve(self, seconds):
        now = time.monotonic()
        if self.timers:
            seconds = min(seconds, max(0, self.timers[0][0] - now))
        for fd, event in self.poll.poll(seconds, PORTION):
            foreign_client = self.open.get(fd)
            if foreign_client is None:
                continue
            if event & select.EPOLLOUT and (number := foreign_client.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                raise ConnectionError(f"{foreign_client.port.who} at port {foreign_client.port.number}: {os.strerror(number)}")
            if event & select.EPOLLOUT:
                self.poll.modify(fd, select.EPOLLIN)
                self.connected[foreign_client.port.who] += 1
                self.kinds[foreign_client.kind.name] += 1
                self.members += foreign_client.kind.member
                self._go_on(foreign_client)
            else:
                self._listen(foreign_client)
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            _, _, fd, foreign_client = heapq.heappop(self.timers)
            if self.open.get(fd) is foreign_client:
                self._go_on(foreign_client)

    def _go_on(self, foreign_client):
        sock = foreign_client.sock
        try:
            for step in foreign_client.steps:
                if step[0] == "say":
                    sock.send(step[1])  # fits into the socket's buffer
                elif step[0] == "pause":
                    self.tie += 1
                    heapq.heappush(self.timers, (time.monotonic() + step[1], self.tie, sock.fileno(), foreign_client))
                    return
                elif step[0] == "end":
                    sock.shutdown(socket.SHUT_WR)
                elif step[0] == "reset":
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif step[0] == "receive" and not foreign_client.received:
                    foreign_client.receiving = True
                    return
                elif step[0] == "stay":
                    return
        except OSError:
            pass  # the job closed the connection
        self._close(foreign_client)

    def _listen(self, foreign_client):
        try:
            got = len(foreign_client.sock.recv(4096))
        except BlockingIOError:
            return
        except OSError:
            got = 0
        if not got:
            return self._close(foreign_client)
        if foreign_client.kind.unanswered and not foreign_client.received:
            self.answered.append(foreign_client)
        foreign_client.received += got
        if foreign_client.receiving:
            foreign_client.receiving = False
            self._go_on(foreign_client)

    def _close(self, foreign_client):
        fd = foreign_client.sock.fileno()
        self.open.pop(fd, None)
        with contextlib.suppress(OSError, ValueError):
            self.poll.unregister(fd)
        foreign_client.sock.close()


def callers(ports, count, seed, kinds_of):
    """`count` foreign clients, spread over ports and kinds: each kind as often at each port, in an order from the seed."""
    dice = random.Random(seed)
    every = [(port, kind) for port in ports for kind in kinds_of[port.who]]
    chosen = [every[i % len(every)] for i in range(count)]
    dice.shuffle(chosen)
    return chosen
