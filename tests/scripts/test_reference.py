"""tools/dev/reference: what it reads out of the sources, and that the table of variables is complete."""

import importlib.machinery
import importlib.util
import re
import unittest

from support import REPOSITORY

_loader = importlib.machinery.SourceFileLoader("reference", str(REPOSITORY / "tools/dev/reference"))
reference = importlib.util.module_from_spec(importlib.util.spec_from_loader("reference", _loader))
_loader.exec_module(reference)

STRUCT = """
typedef struct rondo_some_options {
  size_t size;
  const char* url; /* tcp://host:port */
  /* Two lines of
   * one comment. */
  uint64_t timeout_ms;
  int plain;
  void (*log)(void* user, const char* text); /* receives messages */
} rondo_some_options;
"""

HELP = """\
Does something
Usage: rondo something [OPTIONS]

Positionals:
  command CMD ... REQUIRED        The command

Options:
  -h,--help                       Print this help message and exit
  -i,--step-bytes BYTES Excludes: --step-factor --sizes
                                  Add this
  --in-flight N Needs: --matrix   Messages in flight
  --min-gbps GB Needs: --matrices Exit code 1 if
                                  a pair is slower

Every rank finds:
  RANK      its number
"""

# The folders with code that reads variables at run time. Files of setup (setup.py) read theirs when a package is built.
READERS = ("base", "collectives", "cuda", "embed", "examples", "rendezvous", "tools/common", "tools/perf", "tools/run", "tools/store", "transport")
# With RONDO_ in front these take precedence over a launcher's variables; the code puts the names together.
PUT_TOGETHER = {"RONDO_RANK", "RONDO_WORLD_SIZE", "RONDO_MASTER_ADDR", "RONDO_MASTER_PORT"}


def variables_in_code():
    found = set()
    for folder in READERS:
        for file in (REPOSITORY / folder).rglob("*"):
            if file.suffix in (".cc", ".h", ".py") and not file.stem.endswith("_test") and file.name != "setup.py":
                found |= set(re.findall(r'"(RONDO_[A-Z0-9_]*[A-Z0-9])"', file.read_text(encoding="utf-8")))
    return found


class Variables(unittest.TestCase):
    def test_the_table_has_every_variable_that_the_code_reads_and_no_other(self):
        table = {name for name, _ in reference.variables_of((REPOSITORY / "tools/doctor/environment.cc").read_text(encoding="utf-8"))}
        self.assertEqual(variables_in_code() | PUT_TOGETHER, table)

    def test_a_row_may_have_several_lines_and_other_columns(self):
        rows = reference.variables_of('x kOwn{{\n    {"RONDO_A", "one"},\n    {"RONDO_B", "two "\n     "words", true},\n}};\n')
        self.assertEqual(rows, [("RONDO_A", "one"), ("RONDO_B", "two words")])


class Options(unittest.TestCase):
    def test_a_field_has_the_comment_behind_it_or_before_it(self):
        self.assertEqual(reference.fields_of(STRUCT, "rondo_some_options"), [
            ("url", "const char*", "tcp://host:port"),
            ("timeout_ms", "uint64_t", "Two lines of one comment."),
            ("plain", "int", ""),
            ("log", "void (*)(void* user, const char* text)", "receives messages"),
        ])  # fmt: skip

    def test_every_option_of_the_interface_has_a_meaning(self):
        header = (REPOSITORY / "embed/rondo.h").read_text(encoding="utf-8")
        structs = re.findall(r"^typedef struct (rondo_\w*options) \{", header, re.MULTILINE)
        self.assertIn("rondo_connect_options", structs)
        without = [f"{struct}.{name}" for struct in structs for name, _, meaning in reference.fields_of(header, struct) if not meaning]
        self.assertEqual(without, [])


class Commands(unittest.TestCase):
    def test_a_help_is_taken_apart(self):
        sections = reference.sections_of(HELP)
        self.assertEqual(reference.rows_of(sections["Positionals"]), [("command CMD ... REQUIRED", "The command")])
        self.assertEqual([row[1] for row in reference.rows_of(sections["Options"])],
                         ["Print this help message and exit", "Add this", "Messages in flight", "Exit code 1 if a pair is slower"])  # fmt: skip
        self.assertEqual(sections["after"], "Every rank finds:\n  RANK      its number\n")

    def test_what_a_flag_needs_and_excludes_is_said(self):
        flags = [reference.split_notes(row) for row in reference.rows_of(reference.sections_of(HELP)["Options"])]
        self.assertEqual([flag for flag, _, _ in flags], ["-h,--help", "-i,--step-bytes BYTES", "--in-flight N", "--min-gbps GB"])
        self.assertEqual([reference.required(notes) for _, notes, _ in flags],
                         ["", " (not with `--step-factor`, `--sizes`)", " (only with `--matrix`)", " (only with `--matrices`)"])  # fmt: skip

    def test_cells_show_what_markdown_would_take_as_its_own(self):
        self.assertEqual(reference.cell("a|b *c* `*d*` <e>"), r"a\|b \*c\* `*d*` \<e>")


if __name__ == "__main__":
    unittest.main()
