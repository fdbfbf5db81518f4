"""tools/dev/lab/rdma_vm: a command in a machine with two RDMA devices, and what comes back of it."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
RDMA_VM = REPOSITORY / "tools/dev/lab/rdma_vm"
PATIENCE_S = 300


def rdma_vm(*words):
    return subprocess.run([RDMA_VM, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S,
                          check=False)  # fmt: skip


# Runs perftest from one device to the other, and prints the last line of its client.
BANDWIDTH = """
bandwidth() {
  timeout 20 ib_write_bw -d rxe0 -x 1 -s 65536 -n 50 >/dev/null 2>&1 &
  sleep 1
  timeout 20 ib_write_bw -d rxe1 -x 1 -s 65536 -n 50 10.0.0.1 2>&1 | grep -q '^ 65536' && echo "$1: moved" || echo "$1: did not"
  wait
}
"""


class WithoutABoot(unittest.TestCase):
    def test_wrong_words_are_named(self):
        for words, named in ((["--spin", "true"], "unknown option --spin"), ([], "no command"),
                             (["--memory", "much", "true"], "--memory: expected a positive number, got 'much'"),
                             (["--limit"], "--limit: expected a value"),
                             (["--pin", "--cpus", "999", "true"], "--pin: 999 processors need as many cores"),
                             (["--file", "/no/such", "true"], "/no/such")):  # fmt: skip
            answer = rdma_vm(*words)
            self.assertEqual(answer.returncode, 125, answer)
            self.assertIn(named, answer.stderr)

    def test_help_tells_the_options(self):
        answer = rdma_vm("--help")
        self.assertEqual(answer.returncode, 0)
        self.assertIn("--out DIR", answer.stdout)


class InTheGuest(unittest.TestCase):
    def test_output_files_and_exit_status_come_back(self):
        with tempfile.TemporaryDirectory() as folder:
            brought = pathlib.Path(folder, "brought")
            brought.write_text("from outside\n")
            out = pathlib.Path(folder, "out")
            answer = rdma_vm("--console", "--file", f"{brought}:/root/here", "--out", str(out), "--", "sh", "-c",
                             'cat here; echo "and this" >&2; echo kept >/out/kept; [ $# = 2 ] && exit 7', "sh", "two words", "")  # fmt: skip
            self.assertEqual(answer.returncode, 7, answer)
            self.assertEqual(sorted(answer.stdout.split("\n")), ["", "and this", "from outside"])
            self.assertEqual((out / "kept").read_text(), "kept\n")
            self.assertIn("rdma_vm: ready after", answer.stderr)

    def test_who_ends_the_process_group_ends_the_guest(self):
        def guests():
            listed = subprocess.run(["ps", "-eo", "pid=,sid=,stat=,comm="], capture_output=True, text=True, check=True).stdout
            return [pid for pid, sid, stat, name in (line.split(None, 3) for line in listed.splitlines())
                    if sid == str(vm.pid) and name.startswith("qemu") and not stat.startswith("Z")]  # fmt: skip

        # SIGKILL, as tools/test uses for a program that does not end by itself: the script has no time to end the guest
        # or to clean up.
        with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
                [RDMA_VM, "--", "sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True, env=os.environ | {"TMPDIR": folder}) as vm:  # fmt: skip
            deadline = time.monotonic() + PATIENCE_S
            while not guests():
                self.assertLess(time.monotonic(), deadline, "no guest was started")
                time.sleep(0.1)
            os.killpg(vm.pid, signal.SIGKILL)
        while guests():
            self.assertLess(time.monotonic(), deadline, f"QEMU goes on: {guests()}")
            time.sleep(0.1)

    def test_who_does_not_end_is_ended(self):
        answer = rdma_vm("--limit", "10", "sleep", "1000")
        self.assertEqual(answer.returncode, 124, answer)
        self.assertIn("out of time (10 s)", answer.stderr)

    def test_bytes_pass_between_the_devices_while_the_wire_between_them_is_up(self):
        script = BANDWIDTH + "bandwidth up; ip link set veth1 down; bandwidth down; rdma-net; bandwidth 'up again'"
        answer = rdma_vm("--file", "/usr/bin/ib_write_bw", "--", "bash", "-c", script)
        self.assertEqual(answer.returncode, 0, answer)
        self.assertEqual(answer.stdout.split("\n")[:3], ["up: moved", "down: did not", "up again: moved"], answer)


if __name__ == "__main__":
    os.chdir(REPOSITORY)
    unittest.main()
