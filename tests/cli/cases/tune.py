"""`rondo tune`, and profiles."""

import json
import os
import pathlib
import stat
import tempfile

from cli import RONDO, SMALL, rondo, tables
from commands import Running, Skipped, case


QUICK_TUNE = ("--rounds", "1", "--time-ms", "1", "-e", "64", "-f", "16", "--collectives", "all_reduce,barrier")


@case
def tune_writes_a_profile_that_the_other_commands_choose_by():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "profile.json")
        outcome = rondo("tune", "-N", "2,3", *QUICK_TUNE, "--name", "made here", "--out", path).exits(0)
        outcome.says(r"all_reduce +2 ranks +4 B", r"barrier +3 ranks", r"(?m)^# .*in 2 worlds")
        profile = json.loads(pathlib.Path(path).read_text())
        assert {(world["collective"], world["ranks"]) for world in profile["measured"]} >= {("all_reduce", 2), ("barrier", 3)}
        # A profile in which one algorithm is extremely fast decides the choice.
        for world in profile["measured"]:
            if world["collective"] == "all_reduce":
                world["us"]["chain"] = [0.001] * len(world["bytes"])
        pathlib.Path(path).write_text(json.dumps(profile))
        rondo("explain", "all_reduce", "-N", "2", "--bytes", "64", "--transport", "tcp", "--profile", path).exits(0).says(
            r"algorithm +chain \(the fastest as measured\)", r"expected +0.001 us measured .*'made here'", r"others +.*ring")
        outcome = rondo("perf", "all_reduce", "-N", "2", *SMALL, "--transport", "tcp", "--predicted", env={"RONDO_PROFILE": path}).exits(0)
        outcome.says("chain", r"(?m)expected$", r"(?m)\| +0\.00$")
        assert os.listdir(folder) == ["profile.json"], os.listdir(folder)


@case
def tune_under_a_launcher_measures_its_job_and_keeps_what_a_profile_has_of_other_worlds():
    with tempfile.TemporaryDirectory() as folder:
        node, cluster = os.path.join(folder, "node.json"), os.path.join(folder, "cluster.json")
        rondo("tune", "-N", "2", *QUICK_TUNE, "--name", "the node", "--out", node).exits(0)
        command = (RONDO, "tune", *QUICK_TUNE, "--profile", node, "--out", cluster)
        rondo("run", "-N", "3", "--", *command).exits(0).says(r"all_reduce +3 ranks +4 B", r"# .*cluster.json: 3 sizes in 1 worlds")
        old, new = (json.loads(pathlib.Path(path).read_text()) for path in (node, cluster))
        assert [world["ranks"] for world in new["measured"]] == [3, 3, 2, 2], new["measured"]
        assert [world for world in new["measured"] if world["ranks"] == 2] == old["measured"]
        assert "the node" in new["provenance"]["began from"], new["provenance"]
        rondo("run", "-N", "1", "--", *command).exits(2).says("one rank.*-N RANKS")
        # The launcher returns the code of the rank that ends first: either the rank that cannot write, or a rank that
        # it notified.
        rondo("run", "-N", "2", "--", RONDO, "tune", *QUICK_TUNE, "--out", "/nowhere/profile.json").fails().says("--out: /nowhere")
        rondo("run", "-N", "2", "--", RONDO, "tune", *QUICK_TUNE, "--check").says(r"^(?!.*3 ranks)", r"# 3 sizes, \d+ at which")


@case
def tune_writes_to_a_device_and_does_not_put_a_file_in_its_place():
    if os.geteuid() != 0:
        raise Skipped("only root makes devices")
    with tempfile.TemporaryDirectory() as folder:
        device = pathlib.Path(folder, "null")
        os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        rondo("tune", "-N", "2", "--collectives", "barrier", "--rounds", "1", "--time-ms", "1", "--out", device).exits(0)
        assert device.is_char_device() and os.listdir(folder) == ["null"], os.listdir(folder)


@case
def tune_check_judges_the_choices():
    outcome = rondo("tune", "--check", "-N", "2", *QUICK_TUNE)
    assert outcome.code in (0, 1), outcome  # a test cannot expect a certain speed
    outcome.says(r"barrier +2 ranks", r"auto \w+ .*best \w+ .*ratio", r"(?m)^# 3 sizes, \d+ at which")


tables(
    ("tune_says_what_it_expects", "", [
        ("tune", 2, "--out FILE or --check"),
        ("tune --check -N 1", 2, r"--ranks.*within 2\.\.65536"),
        ("tune --check -N 70000", 2, r"within 2\.\.65536.*70000"),
        ("tune --check --collectives all_reduse", 2, "--collectives.*all_reduse"),
        ("tune --out /nowhere/profile.json", 2, "--out: /nowhere/profile.json"),
        ("tune --out unused.json --profile /dev/null", 2, "--profile"),
        ("explain barrier -N 2 --profile /tmp", 2, "--profile.*/tmp cannot be read"),
        ("tune --check --profile /nowhere/profile.json", 2, "--profile.*/nowhere/profile.json"),
    ]),
)  # fmt: skip


@case
def a_profile_of_the_environment_that_cannot_be_read_is_named():
    rondo("perf", "barrier", "-N", "2", env={"RONDO_PROFILE": "/dev/null"}).exits(2).says("RONDO_PROFILE.*/dev/null")


@case
def ranks_with_different_profiles_have_no_rendezvous():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "profile.json")
        rondo("tune", "-N", "2", *QUICK_TUNE, "--name", "another one", "--out", path).exits(0)
        url = f"file://{folder}/rendezvous"
        flags = ("--rendezvous", url, "--world-size", "2", "--timeout", "20")
        first = Running(RONDO, "perf", "barrier", *flags, "--rank", "0")
        second = Running(RONDO, "perf", "barrier", *flags, "--rank", "1", "--profile", path)
        for outcome in (first.end(), second.end()):
            outcome.exits(1).says("profile", "another one")
