"""`rondo verify` and `rondo chaos`."""

import json
import re

from cli import rondo
from commands import case


@case
def verify_proves_and_says_so():
    rondo("verify", "--max-ranks", "5").exits(0).says("ring", "tree", "dissemination")


@case
def chaos_runs_a_seed_the_same_way_twice_and_sums_up_many():
    once = rondo("chaos", "--seed", "17", "--trace").exits(0).says("planned: ", "all faults have ended", r"hash of the trace: [0-9a-f]{16}")
    assert rondo("chaos", "--seed", "17", "--trace").exits(0).out == once.out
    rondo("chaos", "--seeds", "50", "--world", "4").exits(0).says("50 scenarios, 0 violations", r"[1-9]\d* kills")
    rondo("chaos", "--world", "17").exits(2).says("--world", "16")


@case
def chaos_gives_its_sums_as_json_and_what_came_of_each_kind_of_fault():
    totals = json.loads(rondo("chaos", "--seeds", "300", "--json").exits(0).out)
    assert totals["scenarios"] == 300 and totals["violations"] == 0, totals
    lone = {fault["kind"]: fault for fault in totals["lone_faults"]}
    assert lone["kill"]["fired"] > 0 and lone["kill"]["ranks"]["peer_lost"] > 0 and lone["kill"]["longest_ms"] > 0, lone
    assert set(lone["short_pause"]["ranks"]) == {"correct"}, lone
    rondo("chaos", "--json", "--trace").exits(2).says("--json", "--trace")


@case
def chaos_catches_what_is_put_in_and_says_how_to_see_it_again():
    caught = rondo("chaos", "--seeds", "200", "--negative", "early-release").exits(0).says("early-release was detected")
    seed = re.search(r"replay: rondo chaos --seed (\d+) --trace --negative early-release", caught.out).group(1)
    rondo("chaos", "--seed", seed, "--trace", "--negative", "early-release").exits(0).says("VIOLATION")
