"""Tokens, keys and certificates: who takes part in a job and who does not."""

import re
import signal
import subprocess
import tempfile

from cli import RONDO, SMALL, ranks, rondo
from commands import Running, case


def tokens_of_ranks(*flags, env=None):
    """What a launch of two ranks gives them as RONDO_TOKEN."""
    outcome = rondo("run", "-N", "2", *flags, "--", "sh", "-c", "echo token=${RONDO_TOKEN-none}", env=env).exits(0)
    found = re.findall(r"(?m)^\[\d\] token=(\S+)$", outcome.out)
    assert len(found) == 2, outcome
    return set(found)


@case
def run_makes_a_token_for_every_job_or_hands_on_its_own():
    made = [tokens_of_ranks(env={}) for _ in range(2)]
    assert all(len(tokens) == 1 and re.fullmatch(r"[0-9a-f]{64}", *tokens) for tokens in made), made
    assert made[0] != made[1], made
    assert tokens_of_ranks(env={"RONDO_TOKEN": "ours"}) == {"ours"}
    assert tokens_of_ranks("--no-token", env={"RONDO_TOKEN": "ours"}) == {"none"}


@case
def a_rank_that_is_started_again_has_the_token_of_the_job():
    script = ('echo token=$RONDO_TOKEN; if [ "$RONDO_JOIN" = 1 ]; then exit 0; fi; if [ "$RANK" = 1 ]; then exit 3; fi; sleep 1')
    outcome = rondo("run", "-N", "2", "--restarts", "1", "--", "sh", "-c", script).exits(0)
    tokens = re.findall(r"(?m)^\[\d\] token=([0-9a-f]{64})$", outcome.out)
    assert len(tokens) == 3 and len(set(tokens)) == 1, outcome


@case
def tokens_of_a_wrong_shape_are_refused_and_not_shown():
    for wrong in ("", "qw ertz", "x" * 1025):
        for command in (("run", "-N", "2", "--", "true"), ("store", "--listen", "127.0.0.1:0"),
                        ("perf", "all_reduce", "-N", "2", *SMALL)):
            outcome = rondo(*command, env={"RONDO_TOKEN": wrong}).says("RONDO_TOKEN").within(5)
            assert outcome.code != 0 and "ertz" not in outcome.out + outcome.err and "xxxx" not in outcome.out + outcome.err, outcome


@case
def an_unauthenticated_client_with_everything_but_the_token_is_refused_and_the_job_is_well():
    # Before rank 0 starts, clients that know the job, rank 0's number and the store connect in its place.
    script = ('if [ $RANK = 0 ]; then env -u RONDO_TOKEN "$0" perf all_reduce "$@"; echo outsider ended with $?; '
              'RONDO_TOKEN=guess "$0" perf all_reduce "$@"; echo guesser ended with $?; fi; exec "$0" perf all_reduce "$@"')
    outcome = rondo("run", "-N", "2", "--timeout", "15", "--", "sh", "-c", script, RONDO, *SMALL).exits(0)
    outcome.says("outsider ended with [1-9]", "guesser ended with [1-9]",
                 r"auth: store at 127\.0\.0\.1:\d+: the store has a job token, and this process has none",
                 r"auth: store at 127\.0\.0\.1:\d+: this process \(RONDO_TOKEN\) and the store have different job tokens",
                 r"(?m)^\[0\] +4 +1 ")


@case
def perf_over_tls_says_so_and_its_values_are_right():
    outcome = rondo("perf", "all_reduce", "-N", "3", "--transport", "tcp", "--tls", "psk", *SMALL).exits(0)
    outcome.says("Wrong values *: 0 OK", "TLS 1.3, TLS_AES_128_GCM_SHA256, psk")
    outcome = rondo("perf", "all_reduce", "-N", "3", "--transport", "tcp", *SMALL).exits(0)
    assert "TLS" not in outcome.out, outcome


@case
def run_with_tls_serves_by_a_key_from_the_token_or_without_one_by_a_key_that_is_new_in_every_launch():
    rondo("run", "-N", "2", "--tls", "psk", "--", "sh", "-c", "echo $RONDO_TLS ${RONDO_TLS_PSK-none}").exits(0).says(r"\] psk none")
    keys = set()
    for _ in range(2):
        outcome = rondo("run", "-N", "2", "--no-token", "--tls", "psk", "--", "sh", "-c", "echo $RONDO_TLS $RONDO_TLS_PSK").exits(0)
        printed = set(re.findall(r"(?m)^\[\d\] psk ([0-9a-f]{64})$", outcome.out))
        assert len(printed) == 1, outcome
        keys |= printed
    assert len(keys) == 2, keys
    for flags, env in ((["--tls", "psk"], {}), (["--tls", "psk", "--no-token"], {}), ([], {"RONDO_TLS": "psk"})):
        rondo("run", "-N", "2", *flags, "--", RONDO, "perf", "all_reduce", "--transport", "tcp", *SMALL, env=env).exits(0).says(
            "Wrong values *: 0 OK", "TLS 1.3")
    rondo("run", "-N", "2", "--", "sh", "-c", "echo ${RONDO_TLS-none}", env={"RONDO_TLS": "off"}).exits(0).says(r"\] off")


@case
def certificates_serve_ranks_and_a_store_of_their_own():
    with tempfile.TemporaryDirectory() as folder:
        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

        # The commands of docs/TLS.md.
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                "/CN=job", "-keyout", "ca.key", "-out", "ca.pem")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=rank", "-keyout",
                "rank.key", "-out", "rank.csr")
        openssl("x509", "-req", "-in", "rank.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1",
                "-out", "rank.pem")
        tls = {"RONDO_TLS": "certificates", "RONDO_TLS_CA": f"{folder}/ca.pem", "RONDO_TLS_CERTIFICATE": f"{folder}/rank.pem",
               "RONDO_TLS_KEY": f"{folder}/rank.key", "RONDO_EXTERNAL_STORE": "1"}
        store = Running(RONDO, "store", "--listen", "127.0.0.1:0", "--tls", "certificates", env=tls)
        try:
            address = store.wait_for(r"listening on (tcp://\S+)").group(1)
            members = [Running(RONDO, "perf", "all_reduce", *SMALL, "--transport", "tcp", "--rendezvous", address, "--rank", rank,
                               "--world-size", "2", env=tls) for rank in range(2)]
            members[0].end().exits(0).says("Wrong values *: 0 OK", "TLS 1.3, TLS_AES_128_GCM_SHA256, certificates")
            members[1].end().exits(0)
            outsider = ranks(2, "all_reduce", *SMALL, url=address, numbers=[1])[0]
            outsider.end().exits(1).says("auth", "127.0.0.1")
        finally:
            store.signal(signal.SIGTERM)
            store.end().exits(0)
        rondo("store", "--listen", "127.0.0.1:0", env={**tls, "RONDO_TLS_KEY": f"{folder}/no.key"}).exits(2).says("no.key")
    rondo("store", "--listen", "127.0.0.1:0", "--tls", "psk").exits(2).says("RONDO_TOKEN or RONDO_TLS_PSK")
    rondo("perf", "all_reduce", "-N", "2", "--transport", "inproc", "--tls", "psk").exits(2).says("--tls.*no network")
