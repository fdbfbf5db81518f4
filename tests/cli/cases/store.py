"""`rondo store`."""

import signal

from cli import RONDO, SMALL, rondo
from commands import Running, case


@case
def a_store_with_a_token_serves_who_knows_it():
    store = Running(RONDO, "store", "--listen", "127.0.0.1:0", env={"RONDO_TOKEN": "secret"})
    try:
        address = store.wait_for(r"listening on (tcp://\S+)").group(1)
        store.wait_for(r"only processes that know the token with fingerprint [0-9a-f]{16} are served\n")
        common = ("perf", "all_reduce", *SMALL, "--rendezvous", address, "--world-size", "2", "--timeout", "20", "--rank")
        with_token = {"RONDO_EXTERNAL_STORE": "1", "RONDO_TOKEN": "secret"}
        rondo(*common, "0", env={"RONDO_EXTERNAL_STORE": "1"}).fails().says("auth: store at 127").within(10)
        both = [Running(RONDO, *common, str(rank), env=with_token) for rank in range(2)]
        for rank in both:
            rank.end().exits(0)
    finally:
        store.signal(signal.SIGTERM)
        store.end().exits(0)


@case
def perf_has_a_rendezvous_at_a_store_of_its_own():
    store = Running(RONDO, "store", "--listen", "127.0.0.1:0")
    try:
        address = store.wait_for(r"listening on (tcp://\S+)").group(1)
        held = Running(RONDO, "perf", "all_reduce", *SMALL, "--rank", "1", "--world-size", "2",
                       env={"RONDO_EXTERNAL_STORE": "1", "RANK": "1", "WORLD_SIZE": "2",
                            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": address.rsplit(":", 1)[1]})
        # As in the help of rondo store: a URL, and the variable that says that another process serves the store.
        other = Running(RONDO, "perf", "all_reduce", *SMALL, "--rendezvous", address, "--rank", "0", "--world-size", "2",
                        env={"RONDO_EXTERNAL_STORE": "1"})
        held.end().exits(0)
        other.end().exits(0).says("Wrong values *: 0 OK")
    finally:
        store.signal(signal.SIGTERM)
        store.end().exits(0)


@case
def a_store_says_where_it_listens_and_ends_when_asked():
    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
        store = Running(RONDO, "store", "--listen", "127.0.0.1:0")
        store.wait_for(r"listening on tcp://127\.0\.0\.1:[1-9]\d*")
        store.signal(number).end().exits(code).within(5)
