"""examples/data_parallel_sgd as processes: it proves itself, and worlds of every size train alike.

Builds nothing. The programs are looked for in bazel-bin, or where RONDO_BIN says. All traffic stays on loopback.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("RONDO_BIN", ROOT / "bazel-bin")).absolute()
RONDO = BIN / "tools/rondo"
PROGRAM = BIN / "examples/data_parallel_sgd/data_parallel_sgd"
PATIENCE_S = float(os.environ.get("RONDO_TEST_PATIENCE", "60"))
VERDICT = "every step equals the step of one process up to rounding, and is bit for bit the same on all ranks"
NUMBER = r"([-+.\de]+|nan|inf)"
STEP = re.compile(
    rf"^ +(?P<step>\d+) +(?P<loss>{NUMBER}) +(?P<loss_off>{NUMBER}) \({NUMBER}\) +(?P<off>{NUMBER}) \( *(?P<share>{NUMBER}) %\)"
    rf" +(?P<lone_loss>{NUMBER}) +(?P<lone_off>{NUMBER})$", re.MULTILINE)  # fmt: skip


def environment(**more):
    ours = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {**{name: value for name, value in os.environ.items() if name not in ours}, **more}


def program(*flags, env=None):
    return subprocess.run([PROGRAM, *map(str, flags)], env=environment(**(env or {})), capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=PATIENCE_S)


def run(ranks, *flags):
    return subprocess.run([RONDO, "run", "--no-tag", "-N", str(ranks), "--", PROGRAM, *map(str, flags)], env=environment(),
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S)


def steps(outcome):
    """The table's lines, as dictionaries of numbers."""
    return [{name: float(value) for name, value in match.groupdict().items()} for match in STEP.finditer(outcome.stdout)]


@unittest.skipUnless(RONDO.exists() and PROGRAM.exists(), f"{RONDO} or {PROGRAM} is not built")
class DataParallelSgd(unittest.TestCase):
    def train(self, ranks, *flags, count=20):
        """A training that proves itself; the lines of its table."""
        outcome = run(ranks, *flags)
        self.assertEqual(outcome.returncode, 0, outcome)
        self.assertIn(VERDICT, outcome.stdout)
        lines = steps(outcome)
        self.assertEqual([line["step"] for line in lines], list(range(1, count + 1)), outcome)
        return lines

    def test_worlds_of_one_to_four_train_alike(self):
        # Each program reports its own proof. This comparison is independent: all world sizes must print what one
        # process prints, up to the rounding of sums in another order (2^-24 times a few hundred additions, and its
        # effect on training).
        alone = self.train(1)
        self.assertLess(alone[-1]["loss"], 0.5 * alone[0]["loss"], "it does not learn")
        for ranks in (2, 3, 4):
            for one, many in zip(alone, self.train(ranks)):
                self.assertAlmostEqual(one["loss"], many["loss"], delta=2e-6)
                self.assertAlmostEqual(one["loss"], many["lone_loss"], delta=2e-6)
                self.assertLess(many["lone_off"], 1e-5)

    def test_micro_batches_and_buckets_change_nothing_but_rounding(self):
        plain = self.train(3, "--accumulation", 1, "--bucket-bytes", "1MiB")
        for flags in (["--accumulation", 7], ["--accumulation", 100], ["--bucket-bytes", 1]):
            for one, other in zip(plain, self.train(3, *flags)):
                self.assertAlmostEqual(one["loss"], other["loss"], delta=2e-6)

    def test_fewer_samples_than_ranks(self):
        self.train(4, "--batch", 3, "--steps", 5, count=5)

    def test_compressed_gradients_are_proved_by_their_own_bound_and_really_compressed(self):
        exact = self.train(2)
        for gradient_type in ("bfloat16", "float16"):
            compressed = self.train(2, "--gradient-type", gradient_type)
            self.assertAlmostEqual(exact[-1]["loss"], compressed[-1]["loss"], delta=0.05)
            self.assertGreater(compressed[0]["off"], 10 * exact[0]["off"])

    def test_a_run_gives_the_same_bits_again(self):
        self.assertEqual(self.train(3), self.train(3))

    def test_another_seed_is_another_training(self):
        self.assertNotEqual(self.train(2, "--steps", 1, count=1)[0]["loss"],
                            self.train(2, "--steps", 1, "--seed", 2, count=1)[0]["loss"])

    def test_gradients_that_overflow_their_type_fail_the_proof_on_every_rank(self):
        # A run that diverges in float16: the ranks' infinities are detected and reported, and the exit code is 1.
        outcome = run(2, "--gradient-type", "float16", "--learning-rate", 10, "--momentum", 0.99, "--steps", 1000)
        self.assertEqual(outcome.returncode, 1, outcome)
        self.assertIn("FAILED", outcome.stdout)
        self.assertNotIn(VERDICT, outcome.stdout)
        self.assertRegex(outcome.stderr, r"step \d+: element \d+ of (weight|bias) \d is not a finite number")

    def test_ranks_that_disagree_about_buckets_are_reported(self):
        script = f"exec {PROGRAM} --bucket-bytes $((512 << 5 * RANK))"
        outcome = subprocess.run([RONDO, "run", "-N", "2", "--", "sh", "-c", script], env=environment(), capture_output=True,
                                 text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S)
        self.assertEqual(outcome.returncode, 1, outcome)
        self.assertRegex(outcome.stderr, r"mismatch: the ranks disagree: .*all_reduce float32 x \d+ avg")

    def test_a_killed_rank_ends_the_training_of_all_by_name(self):
        script = f"echo pid $$; exec {PROGRAM} --steps 1000000"
        job = subprocess.Popen([RONDO, "run", "-N", "3", "--", "sh", "-c", script], env=environment(), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with job:
            pid = third_step = None
            for line in job.stdout:
                pid = pid or re.match(r"\[2\] pid (\d+)", line)
                third_step = third_step or re.match(r"\[0\] +3 ", line)  # all ranks are training
                if pid and third_step:
                    os.kill(int(pid[1]), signal.SIGKILL)
                    break
            _, said = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL)
        for rank in (0, 1):
            self.assertRegex(said, rf"(?m)^\[{rank}\] data_parallel_sgd: peer_lost: rank 2 ")

    def survive(self, victim, *flags, launcher=(), steps=200):
        """A training of three ranks of which one is killed when all are at work. Its lines without their tags."""
        script = f"echo pid $$; exec {PROGRAM} --survive --steps {steps} {' '.join(map(str, flags))}"
        job = subprocess.Popen([RONDO, "run", "-N", "3", "--keep-going", *launcher, "--", "sh", "-c", script],
                               env=environment(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        pid = None
        at_work = False
        lines = []
        complaints = []
        with job:
            patience = threading.Timer(PATIENCE_S, job.kill)
            patience.start()
            reader = threading.Thread(target=lambda: complaints.append(job.stderr.read()))
            reader.start()
            killed = False
            for line in job.stdout:  # reads to the end: a loop that is left loses the lines that it has read ahead
                lines.append(line)
                pid = pid or re.match(rf"\[{victim}\] pid (\d+)", line)
                at_work = at_work or re.match(r"\[0\] +5 ", line)
                if pid and at_work and not killed:
                    os.kill(int(pid[1]), signal.SIGKILL)
                    killed = True
            reader.join()
            patience.cancel()
            said = "".join(complaints)
        text = re.sub(r"(?m)^\[\d\] ", "", "".join(lines))
        self.assertEqual(job.returncode, 0, text + said)
        self.assertIn(VERDICT, text)
        self.assertRegex(said, rf"rank {victim} \(pid {pid[1]}\) was killed by SIGKILL; continuing with 2")
        return text

    def same_training(self, text, steps=200):
        """Every step was taken, some perhaps twice, and led where one process alone is led."""
        alone = {line["step"]: line for line in map(self.numbers, STEP.finditer(self.alone(steps)))}
        taken = [self.numbers(match) for match in STEP.finditer(text)]
        self.assertEqual({line["step"] for line in taken}, set(range(1, steps + 1)))
        self.assertLessEqual(len(taken), steps + 2)  # at most the lost step, for each rank that printed
        for line in taken:
            self.assertAlmostEqual(line["loss"], alone[line["step"]]["loss"], delta=1e-3)

    @staticmethod
    def numbers(match):
        return {name: float(value) for name, value in match.groupdict().items()}

    def alone(self, steps):
        outcome = run(1, "--steps", steps)
        self.assertEqual(outcome.returncode, 0, outcome)
        return outcome.stdout

    def test_whichever_rank_is_killed_the_others_finish_the_same_training(self):
        for transport in ("tcp", "shm"):
            for victim in (0, 1, 2):
                with self.subTest(transport=transport, victim=victim):
                    text = self.survive(victim, "--transport", transport)
                    self.assertRegex(text, rf"rebuilt +generation 1 of 2 ranks; .*gone: rank {victim} \(host ")
                    self.assertRegex(text, r"resumed +after step \d+")
                    self.same_training(text)

    def test_a_rank_that_is_started_again_takes_part_in_the_rest(self):
        for victim in (0, 2):
            with self.subTest(victim=victim):
                text = self.survive(victim, "--refill", 3, "--settle", 20, launcher=("--restarts", "1"))
                self.assertRegex(text, r"rebuilt +generation 1 of 3 ranks; .*2 is new; gone: rank")
                self.same_training(text)

    def test_it_starts_by_the_environment_alone(self):
        with socket.socket() as held:  # bound but not listening, so that no other process gets the port
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            where = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held.getsockname()[1])}
            other = subprocess.Popen([PROGRAM], env=environment(RANK="1", **where), stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                outcome = program(env={"RANK": "0", **where})
                said, _ = other.communicate(timeout=PATIENCE_S)
            finally:
                other.kill()
                other.wait()
        self.assertEqual((outcome.returncode, other.returncode), (0, 0), outcome)
        self.assertIn(VERDICT, outcome.stdout)
        self.assertEqual(said, "")  # only rank 0 prints the error

    def test_help_names_every_flag(self):
        outcome = program("--help")
        self.assertEqual(outcome.returncode, 0)
        for flag in ("--steps --batch --accumulation --bucket-bytes --gradient-type --hidden --learning-rate --momentum "
                     "--seed --rendezvous --transport --timeout --survive --refill --settle").split():
            self.assertIn(flag, outcome.stdout)

    def test_wrong_usage_names_the_flag_and_what_it_expects(self):
        for flag, value, wants in (("--steps", "0", "1 to 1000000"), ("--batch", "many", "--batch"),
                                   ("--gradient-type", "int8", "bfloat16"), ("--bucket-bytes", "4Q", "--bucket-bytes"),
                                   ("--hidden", "8,0", "1 to 4096"), ("--momentum", "1", "0 to 0.99"),
                                   ("--accumulation", "0", "--accumulation"), ("--timeout", "0", "--timeout")):
            outcome = program(flag, value)
            self.assertEqual(outcome.returncode, 2, outcome)
            self.assertIn(flag, outcome.stderr)
            self.assertIn(wants, outcome.stderr)
        self.assertEqual(program("--sabotage").returncode, 2)

    def test_the_timeout_of_rondo_run_is_heeded(self):
        outcome = program(env={"RONDO_TIMEOUT": "never"})
        self.assertEqual(outcome.returncode, 2, outcome)
        self.assertIn("--timeout", outcome.stderr)

    def test_a_rendezvous_that_is_missing_is_explained(self):
        outcome = program()
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("MASTER_ADDR", outcome.stderr)


if __name__ == "__main__":
    unittest.main()
