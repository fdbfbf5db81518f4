"""tools/dev/lint finds what it is there to find: every rule is broken once, and a harmless neighbour is left alone."""

import contextlib
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load_lint():
    loader = importlib.machinery.SourceFileLoader("lint", str(ROOT / "tools/dev/lint"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


lint = load_lint()


class HouseRules(unittest.TestCase):
    def findings(self, file, text):
        return lint.house_rules(file, text)

    def assert_found(self, file, text, what, line):
        found = self.findings(file, text)
        self.assertEqual(len(found), 1, found)
        self.assertIn(what, found[0])
        self.assertTrue(found[0].startswith(f"{file}:{line}: "), found[0])

    def test_the_library_reads_neither_clock_nor_environment_and_does_not_sleep(self):
        for code in (
            'auto home = std::getenv("HOME");',
            "auto now = std::chrono::steady_clock::now();",
            "std::chrono::system_clock::time_point when;",
            "std::this_thread::sleep_for(pause);",
            "usleep(100);",
            "sleep(1);",
            "std::random_device device;",
        ):
            with self.subTest(code):
                self.assert_found("transport/tcp/lane.cc", f"\n{code}\n", "", 2)

    def test_comments_and_literals_are_not_code(self):
        for code in ("// never sleep(1) here", 'Fail("getenv() failed");', "/* steady_clock::now\n usleep(1) */", 'R"(sleep(1))"'):
            with self.subTest(code):
                self.assertEqual(self.findings("transport/tcp/lane.cc", code), [])

    def test_a_sleep_that_was_handed_in_is_no_sleep_of_ours(self):
        self.assertEqual(self.findings("rendezvous/file_store.cc", "options_.sleep(pause);"), [])

    def test_edges_and_tests_may(self):
        for file in ("tools/run/run.cc", "tests/base/a.cc", "examples/a.cc", "base/clock.h", "transport/tcp/tcp_test.cc"):
            with self.subTest(file):
                found = self.findings(file, "#pragma once\nauto now = std::chrono::steady_clock::now();")
                self.assertEqual(found, [])

    def test_a_case_that_cannot_run_says_why_and_is_not_marked(self):
        part = 'TEST_CASE("child: sends" * doctest::skip()) {\n'
        self.assert_found("tests/a/a_test.cc", f'{part}TEST_CASE("it is received" *\n    doctest::skip()) {{\n', "SKIP: what: why", 3)
        self.assertEqual(self.findings("tests/a/a_test.cc", part), [])

    def test_includes_obey_the_arrows(self):
        self.assert_found("base/bytes.h", '#pragma once\n#include "transport/lane.h"\n', "base must not include", 2)
        self.assert_found("collectives/schedule/text.cc", '#include "transport/lane.h"\n', "collectives/schedule must not", 1)
        self.assert_found("transport/doorbell.cc", '#include "rendezvous/store.h"\n', "transport must not include", 1)
        self.assert_found("transport/tcp/tcp.cc", '#include "transport/inproc/lane.h"\n', "transport/tcp must not include", 1)
        self.assert_found("tools/rondo.cc", '#include "tests/kernels/reference.h"\n', "tools must not include", 1)
        self.assert_found("tools/trace/trace.cc", '#include "tools/perf/report.h"\n', "tools/trace must not include", 1)
        self.assert_found("tools/common/output.cc", '#include "tools/run/launch.h"\n', "tools/common must not include", 1)
        self.assertEqual(self.findings("collectives/engine/engine.cc", '#include "transport/lane.h"\n'), [])
        self.assertEqual(self.findings("collectives/connect.cc", '#include "rendezvous/store.h"\n'), [])

    def test_what_is_sans_io_includes_no_asio(self):
        self.assert_found("collectives/engine/engine.cc", "#include <asio.hpp>\n", "sans-I/O", 1)
        self.assertEqual(self.findings("transport/tcp/tcp.cc", "#include <asio/ip/tcp.hpp>\n"), [])

    def test_all_of_fmt_is_included_only_by_who_uses_more_than_its_core(self):
        include = "#include <fmt/format.h>\n"
        self.assert_found("base/a.cc", f'#include <string>\n{include}auto a = fmt::format("{{}}", 1);', "core.h", 2)
        self.assert_found("base/a.cc", f"{include}// as fmt::join does", "core.h", 1)
        for use in ('fmt::join(ranks, ", ")', 'fmt::format_to(end, "{}", rank)', "fmt::to_string(rank)"):
            with self.subTest(use):
                self.assertEqual(self.findings("base/a.cc", f"{include}auto a = {use};"), [])

    def test_format_to_comes_with_all_of_fmt(self):
        self.assert_found("base/a.cc", '#include <fmt/core.h>\n// fmt::format_to\nfmt::format_to(end, "a");', "format_to needs", 3)

    def test_a_header_is_included_once(self):
        self.assert_found("base/ids.h", "namespace rondo {}\n", "#pragma once", 1)
        guards = "#ifndef RONDO_H_\n#define RONDO_H_\n#endif\n"
        self.assertEqual(self.findings("embed/rondo.h", guards), [])  # compilers of other projects read it
        self.assert_found("embed/rondo.h", "#ifndef RONDO_H_\n#endif\n", "#pragma once", 1)
        self.assert_found("base/ids.h", guards, "#pragma once", 1)


class TextRules(unittest.TestCase):
    def findings(self, content, name="a.txt"):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, name).write_bytes(content)
            root, lint.ROOT = lint.ROOT, Path(folder)
            try:
                return lint.text_rules(name)
            finally:
                lint.ROOT = root

    def test_blemishes_of_text_are_found_with_their_line(self):
        for content, finding in (
            (b"a\n\tb\n", "a.txt:2: a tab"),
            (b"a \n", "a.txt:1: blanks at the end of the line"),
            (b"a\r\n", "a.txt:1: blanks at the end of the line"),
            (b"a", "a.txt:1: no newline at the end"),
            (b"<<<<<<< HEAD\n", "a.txt:1: a merge conflict"),
            (b"\xff\n", "a.txt:1: not UTF-8"),
        ):
            with self.subTest(finding):
                self.assertEqual(self.findings(content), [finding])
        self.assertEqual(self.findings(b"all: a\n\tb\n", "Makefile"), [])
        self.assertEqual(self.findings(b""), [])

    def test_a_list_that_the_formatter_made_a_paragraph_is_found(self):
        self.assertIn("a.h:3: a list", self.findings(b"#pragma once\n//   one  two\n//   three\n", "a.h")[0])
        self.assertEqual(self.findings(b"#pragma once\n//   one  two\n// three\n", "a.h"), [])

    def test_large_files_do_not_belong_here(self):
        self.assertIn("200001 bytes", self.findings(b"a" * 200_000 + b"\n")[0])

    def test_scripts_parse(self):
        self.assertIn("a.py:2: ", self.findings(b"a = 1\nb = (\n", "a.py")[0])
        self.assertIn("a:2: ", self.findings(b"#!/bin/sh\nif true; then )\n", "a")[0])
        self.assertEqual(self.findings(b"#!/bin/sh\ntrue\n", "a"), [])


class Words(unittest.TestCase):
    def test_words_of_our_own_are_found_in_prose_and_in_identifiers(self):
        for text, word in (("// Whoever waits", "whoever"), ("int TellStrangers();", "stranger"), ("bool was_told_ = false;", "told"),
                           ("the last words of a rank", "last words"), ("def test_nobody_waits(self):", "nobody")):  # fmt: skip
            with self.subTest(text):
                found = lint.word_rules("docs/a.md", f"\n{text}\n")
                self.assertEqual([line.split(" is not")[0] for line in found], [f"docs/a.md:2: '{word}'"])

    def test_parts_of_other_words_are_none_of_them(self):
        self.assertEqual(lint.word_rules("docs/a.md", "hearing, storytold, the installed packages of a foretold board"), [])

    def test_the_list_itself_and_the_user_nobody_may_stay(self):
        self.assertEqual(lint.word_rules("tools/dev/lint", "stranger"), [])
        self.assertEqual(lint.word_rules("tests/launchers/sshd.py", "user nobody"), [])


class SentenceWarnings(unittest.TestCase):
    def warned(self, file, text):
        return lint.sentence_warnings(file, text, set(range(1, 100)))

    def test_each_pattern_is_found_in_prose(self):
        for sentence in ("It is late. Who waits is named.", "Ends the lane and who waits on it.", "Frees all that was made.", "Where it fails, it is closed.",
                         "The rank is to wait.", "It closes everything but for the store.", "Its address stands in the roster.",
                         "It waits so long.", "The how many-th lane it is."):  # fmt: skip
            with self.subTest(sentence):
                self.assertEqual(len(self.warned("a.h", f"int a = 0;\n// {sentence}\n")), 1)
                self.assertTrue(self.warned("a.md", f"{sentence}\n")[0].startswith("a.md:1: warning: '"))
                self.assertEqual(len(self.warned("a.py", f'def a():\n    """{sentence}"""\n')), 1)
                self.assertEqual(self.warned("a.py", f"text = '{sentence}'\n"), [])
                self.assertEqual(self.warned("a.cc", f'const char* text = "{sentence}";\n'), [])

    def test_plain_sentences_are_left_alone(self):
        for sentence in ("What is measured?", "It is so large that it is split.", "The peer that waits is named.", "The lane to the peer is open."):
            with self.subTest(sentence):
                self.assertEqual(self.warned("a.md", f"{sentence}\n"), [])

    def test_only_changed_lines_are_warned_of(self):
        diff = "--- a/a.md\n+++ b/a.md\n@@ -1 +2,2 @@ x\n-o\n+p\n+q\n@@ -9,0 +11 @@\n+r\n@@ -20,2 +21,0 @@\n-s\n-t\n"
        self.assertEqual(lint.changed_of_diff(diff), {"a.md": {2, 3, 11}})
        self.assertEqual(lint.sentence_warnings("a.md", "It stands.\nIt stands.\n", {2}), ["a.md:2: warning: 'stands': say 'is'"])


class Whole(unittest.TestCase):
    """On a repository of its own, as a process."""

    @contextlib.contextmanager
    def repository(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for file in ("tools/dev/lint", "tests/layers/arrows.py", ".clang-format", ".clang-tidy", ".gitignore"):
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_bytes((ROOT / file).read_bytes())
            (root / "base").mkdir()
            subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
            yield root

    def test_a_header_that_leans_on_its_includer_and_a_crooked_line_are_found_and_counted(self):
        if lint.missing_tools(["clang-format", "codespell", lint.COMPILER]):
            self.skipTest("the packages of tools/dev/packages/lint.list are not installed")
        with self.repository() as root:
            (root / "base/leans.h").write_text("#pragma once\ninline std::string name;\n")
            (root / "base/crooked.cc").write_text("int  main( ) { return 0; }\n")
            command = [sys.executable, "tools/dev/lint"]
            run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
            self.assertIn("base/leans.h:2: base/leans.h does not compile by itself: ", run.stdout)
            self.assertIn("base/crooked.cc:1: not formatted", run.stdout)
            self.assertIn("7 files, 2 findings", run.stdout)

            (root / "base/leans.h").write_text("#pragma once\n#include <string>\ninline std::string name;\n")
            subprocess.run([*command, "--fix"], cwd=root, capture_output=True, check=True)
            run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
            self.assertEqual(run.stdout, "7 files, 0 findings\n")
            self.assertEqual(run.returncode, 0)

    def test_a_header_that_a_source_includes_first_is_compiled_alone_only_where_it_is_named(self):
        if lint.missing_tools(["clang-format", "codespell", lint.COMPILER]):
            self.skipTest("the packages of tools/dev/packages/lint.list are not installed")
        with self.repository() as root:
            (root / "base/leans.h").write_text("#pragma once\ninline std::string name;\n")
            command = [sys.executable, "tools/dev/lint"]
            for first, words, findings in (('#include "base/leans.h"\n\n#include <string>\n', [], 0),
                                           ('#include "base/leans.h"\n\n#include <string>\n', ["base/leans.h"], 1),
                                           ("#include <string>\n", [], 1)):  # fmt: skip
                with self.subTest(first=first, words=words):
                    (root / "base/leans.cc").write_text(first)
                    run = subprocess.run([*command, *words], cwd=root, capture_output=True, text=True, check=False)
                    self.assertIn(f" {findings} findings", run.stdout)

    def test_a_warning_is_printed_for_a_changed_line_and_is_no_finding(self):
        if lint.missing_tools(["clang-format", "codespell", lint.COMPILER]):
            self.skipTest("the packages of tools/dev/packages/lint.list are not installed")
        with self.repository() as root:
            (root / "a.md").write_text("The roster stands here.\n")
            run = subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "empty"], cwd=root, check=False)
            self.assertEqual(run.returncode, 0)
            subprocess.run(["git", "add", "a.md"], cwd=root, check=True)
            ran = subprocess.run([sys.executable, str(root / "tools/dev/lint")], capture_output=True, text=True, check=False)
            self.assertIn("a.md:1: warning: 'stands': say 'is'\n", ran.stdout)
            self.assertIn(" 0 findings", ran.stdout)
            self.assertEqual(ran.returncode, 0)

    def test_a_word_that_is_spelled_wrong_is_found(self):
        if lint.missing_tools(["clang-format", "codespell", lint.COMPILER]):
            self.skipTest("the packages of tools/dev/packages/lint.list are not installed")
        with self.repository() as root:
            wrong = "rec" + "ieves"  # put together, so that the linter does not find it here
            (root / "a.md").write_text(f"A rank that {wrong}.\n")
            run = subprocess.run([sys.executable, "tools/dev/lint"], cwd=root, capture_output=True, text=True, check=False)
            self.assertIn(f"a.md:1: spelling: {wrong} ==> receives", run.stdout)
            self.assertIn(" 1 findings", run.stdout)

    def test_clang_tidy_looks_again_only_at_what_has_changed_since_it_found_nothing_there(self):
        if lint.missing_tools(["clang-tidy", lint.COMPILER]):
            self.skipTest("the packages of tools/dev/packages/lint.list are not installed")
        with self.repository() as root:

            def tidy(remembers=str(root / ".cache")):
                run = subprocess.run([sys.executable, "tools/dev/lint", "--tidy"], cwd=root, capture_output=True, text=True,
                                     env=os.environ | {"XDG_CACHE_HOME": remembers}, check=False)  # fmt: skip
                before, *found, _ = run.stdout.splitlines()
                return int(before.split(": ")[1].split()[0]), [line.split(": ")[0] for line in found], run.returncode

            (root / ".gitignore").write_text(".cache\n")
            (root / "base/same.h").write_text("#pragma once\nint Same();  // NOLINT\n")
            (root / "base/same.cc").write_text('#include "base/same.h"\nint Same() { return 1; }\n')
            (root / "base/unused.cc").write_text("int Unused(int argument) { return 1; }\n")
            self.assertEqual(tidy(), (0, ["base/unused.cc:1:16"], 1))
            self.assertEqual(tidy(), (1, ["base/unused.cc:1:16"], 1))  # a finding is reported again
            (root / "base/unused.cc").write_text("int Unused(int /*argument*/) { return 1; }\n")
            self.assertEqual(tidy(), (1, [], 0))
            self.assertEqual(tidy(), (2, [], 0))
            (root / "base/same.h").write_text("#pragma once\nint Same();\n")  # a comment may silence a finding
            self.assertEqual(tidy(), (1, [], 0))
            with open(root / ".clang-tidy", "a") as rules:
                rules.write("  # another rule\n")
            self.assertEqual(tidy(), (0, [], 0))
            self.assertEqual(tidy(remembers="/dev/null/nowhere"), (0, [], 0))


if __name__ == "__main__":
    unittest.main()
