"""tools/test: runs the suites of table.py, streams what they say, and counts.

The end line is exactly `N passed, N failed, N skipped`; the exit status is 0 only if nothing failed, 2 for wrong usage or a
full disk and 130 after Ctrl-C.
"""

import argparse
import collections
import sys
import time
from dataclasses import replace

import room
from runner import REPOSITORY, Runner, clock_text
from table import SUITES, Tier, bazel

# How users ask for each run.
RUN_OF = {Tier.QUICK: "--quick", Tier.USUAL: "usual", Tier.FULL: "--full"}
BUILD = "build"  # after this suite every release target is built


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="tools/test",
        description="Runs every test of Rondo. Missing Debian packages are installed first.",
        epilog="Budgets are for two cores. A suite that exceeds its budget is reported; after three times its budget it is "
        "ended and counts as failed. Building what a suite needs does not count. With --full there are no budgets.",
    )
    parser.add_argument("--quick", action="store_true", help="run what should pass before each commit: unit tests, layers, scripts, lint")
    parser.add_argument("--full", action="store_true", help="run everything, without time limits")
    parser.add_argument("--only", metavar="SUITE", action="append", default=[],
                        help="build what this suite needs and run it (may be repeated)")  # fmt: skip
    parser.add_argument("--torch", metavar="MAJOR", choices=["1", "2"], default="1",
                        help="2: test the torch backend also with PyPI's torch 2 (5 GB)")  # fmt: skip
    parser.add_argument("--gpu", action="store_true", help="build, check and measure only what needs a GPU")
    parser.add_argument("--prebuilt", metavar="DIR",
                        help="with --gpu: run what `tests/cuda/run_on_gpu --bundle DIR` left there, without Bazel, packages or network")
    parser.add_argument("--list", action="store_true", help="print the suites, the shortest run that has each, and its budget; run nothing")
    options = parser.parse_args(arguments)
    if options.prebuilt and not options.gpu:
        parser.error("--prebuilt requires --gpu")
    if sum(map(bool, (options.quick, options.full, options.gpu, options.only))) > 1:
        parser.error("only one of --quick, --full, --only and --gpu is allowed")
    if options.gpu:
        options.only = ["gpu"] if options.prebuilt else ["packages", "gpu"]
    names = [suite.name for suite in SUITES]
    for name in options.only:
        if name not in names:
            parser.error(f"--only {name}: there is no such suite; there are {', '.join(names)}")
    options.tier = Tier.QUICK if options.quick else Tier.FULL if options.full else Tier.USUAL
    return options


def choose(suites, options):
    """What runs, each with all that has to be built before it; and what a longer run has beside it."""
    asked = [*options.only, *(["torch-2"] if options.torch == "2" else [])]
    chosen = [s for s in suites if s.name in asked or (not options.only and s.tier <= options.tier)]
    left_out = [] if options.only else [s for s in suites if s not in chosen]
    if options.prebuilt:
        return [replace(s, command=[*s.command, "--prebuilt", options.prebuilt], prepare=()) for s in chosen], left_out
    if any(s.name == BUILD for s in chosen):
        return chosen, left_out
    return [replace(s, prepare=(bazel("build", "release", *s.release), *s.prepare)) if s.release else s for s in chosen], left_out


def main(arguments, suites=SUITES, out=sys.stdout):
    options = parse(arguments)
    if options.list:
        for suite in suites:
            budget = "" if suite.tier == Tier.FULL else f"{suite.budget_min:g} min"
            print(f"{suite.name:12} {RUN_OF[suite.tier]:>8} {budget:>7}  {suite.what}", file=out)
        return 0
    chosen, left_out = choose(suites, options)

    short, enough = room.shortage(room.where(REPOSITORY))
    if not enough:
        print(f"tools/test: {short}", file=sys.stderr)
        return 2
    if short:
        print(f"!! {short}", file=out)

    runner = Runner(out, unlimited=options.full)
    begin = time.monotonic()
    try:
        with runner.interrupts.handled():
            results = runner.run(chosen)
    except KeyboardInterrupt:
        print("\ninterrupted; all running suites were ended", file=out, flush=True)
        return 130
    return report(results, left_out, time.monotonic() - begin, out)


def report(results, left_out, seconds, out):
    print(f"\n{'suite':12} {'prepared':>8} {'time':>7} / {'budget':7} result", file=out)
    for result in results:
        print(result.line(), file=out)
    for result in results:
        for failure in result.counts.failures:
            print(f"failed: {result.suite.name}: {failure}", file=out)
    for result in results:
        for reason, times in collections.Counter(result.counts.skips).items():
            print(f"skipped: {result.suite.name}: {reason}" + (f" ({times} times)" if times > 1 else ""), file=out)
    for suite in left_out:
        print(f"not in this run ({RUN_OF[suite.tier]}): {suite.name}: {suite.what}", file=out)
    total = sum(result.prepared_s + result.seconds for result in results)
    print(f"in all {clock_text(seconds)}; one after the other {clock_text(total)}", file=out)
    passed = sum(result.counts.passed for result in results)
    failed = sum(result.counts.failed for result in results)
    skipped = sum(result.counts.skipped for result in results)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", file=out, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
