"""`rondo explain`."""

from cli import rondo, tables
from commands import case

tables(
    ("explain_says_what_and_why_and_which_addresses", "explain --transport tcp", [
        ("all_reduce -N 8 --bytes 64M", 0, r"algorithm +\w+ \(the fastest as (predicted|measured)\)", r"expected +\S+ us (predicted|measured)",
         r"others +.*\b(tree|ring) \S+ us"),
        ("all_reduce -N 8 --bytes 64M --algorithm ring", 0, "asked for", "slices +8 of 8 MiB", "rounds +14", "chunks +8 of about 1 MiB",
         "by one rank 112 MiB to 112 MiB", "(?i)address",
         r"(?m)^schedule all_reduce ring world 8", r"(?m)^rank 7$"),  # the schedule is small enough to be printed
        ("broadcast -N 5 --bytes 4 -r 3 --text --algorithm tree", 0, "root 3", r"(?m)^schedule broadcast tree world 5 root 3", r"(?m)^rank 4$"),
        ("all_reduce -N 9 --bytes 64M --text", 0, r"(?m)^rank 8$"),
        ("all_reduce -N 300 --text", 2, "--text.*at most 256 ranks"),
        ("all_to_all -N 4 --bytes 1M --algorithm pairwise", 0, "float32 x 65536 x 4 ranks = 1048576 bytes", "pairwise", "rounds +3",
         "by one rank 768 KiB to 768 KiB"),
        ("all_reduce -N 4 --bytes 1M --reproducible", 0, r"algorithm +(direct|two_shot|chain) ", "reproducible"),
        ("all_reduce -N 4 --reproducible --algorithm ring", 2, "left fold", "direct"),
        ("barrier -N 1", 0, "rounds +0"),
    ]),
    ("explain_says_over_what_its_times_are", "explain", [
        ("all_reduce -N 65", 0, "transport +shm", "expected .* over tcp among ranks of one host"),
    ]),
)  # fmt: skip


@case
def explain_leaves_out_schedules_too_large_to_be_read():
    for large in (9, 300):
        outcome = rondo("explain", "--transport", "tcp", "all_reduce", "-N", large, "--bytes", "64M").exits(0).says("--text prints it whole")
        assert "\nrank 0" not in outcome.out, outcome
