"""docs/REFERENCE.md, which tools/dev/reference makes from the sources and from `rondo COMMAND --help`."""

import pathlib
import tempfile

import cli
from commands import ROOT, Running, case

REFERENCE = ROOT / "tools/dev/reference"


@case
def the_reference_says_what_its_sources_say():
    Running(REFERENCE, "--check", "--rondo", cli.RONDO).end().exits(0)


@case
def a_reference_that_differs_is_reported_with_the_difference():
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "rondo")
        program.write_text(f'#!/bin/sh\n"{cli.RONDO}" "$@" | sed "s/Measure collectives/Measure everything/"\n')
        program.chmod(0o755)
        outcome = Running(REFERENCE, "--check", "--rondo", program).end()
    outcome.exits(1).says("Measure everything", "docs/REFERENCE.md differs from its sources")
