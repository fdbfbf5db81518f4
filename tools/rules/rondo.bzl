"""Rondo's C++ rules: a library or a test compiles its sources as one unit.

Most of the time that a source takes to compile goes into headers and into the templates of the standard library. One unit
compiles these once, in a third to a fifth of the time. So names in the anonymous namespaces of one library must differ.
`--define=units=file` compiles every source by itself, which is better while one source is edited, or on many cores.
"""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

_ASAN = "//tools/rules:asan"
_TSAN = "//tools/rules:tsan"
_ELSEWHERE = "//conditions:default"

# The constants below are for the attribute `copts`. Without one of them, code is compiled with -O3 in release and with
# -O1 under sanitizers.

# Code that no operation waits for: commands, rendezvous, fault injection. -O1 compiles in two thirds of the time of -O3.
COLD = select({
    _ASAN: ["-O0"],
    _TSAN: ["-O0"],
    _ELSEWHERE: ["-O1"],
})

# Code whose speed matters in release, but which tests run under sanitizers for less time than optimizing takes. This is
# most of the library; the rest is code that tests repeat for every element, step or seed.
SELDOM_RUN = select({
    _ASAN: ["-O0"],
    _TSAN: ["-O0"],
    _ELSEWHERE: [],
})

# Code that the fuzzers of tests/fuzz reach, in addition to another constant. This flag counts executed paths, by which
# libFuzzer finds new ones.
FUZZED = select({
    _ASAN: ["-fsanitize=fuzzer-no-link"],
    _ELSEWHERE: [],
})

# These checks of UBSan take half of a test's compile time. They stay on in the library; in tests AddressSanitizer still finds
# accesses outside of an object, and UBSan still checks shifts, overflows, indices and values of enumerations.
_UNCHECKED = select({
    _ASAN: ["-fno-sanitize=alignment,object-size,pointer-overflow,vptr"],
    _ELSEWHERE: [],
})

# Tests: the code that they call is optimized, and their own code runs for less time than optimizing takes.
TEST = ["-O0"] + _UNCHECKED

# Tests that sweep over many worlds or seeds.
SWEEP = ["-O1"] + _UNCHECKED

def _unit_impl(ctx):
    unit = ctx.actions.declare_file(ctx.label.name + ".cc")
    sources = [file for file in ctx.files.srcs if file.extension == "cc"]
    ctx.actions.write(unit, "".join(['#include "%s"\n' % source.short_path for source in sources]))
    return [DefaultInfo(files = depset([unit]))]

# Generates a source file that includes all source files among `srcs`.
_unit = rule(
    implementation = _unit_impl,
    attrs = {"srcs": attr.label_list(allow_files = True)},
)

def _is_source(file):
    return file.endswith(".cc") or ":" in file

def rondo_library(name, srcs = [], apart = [], textual_hdrs = [], testonly = False, **attributes):
    """cc_library whose sources are one unit.

    Args:
      name: of the library.
      srcs: sources and private headers. A label is a generated source, or a group of sources.
      apart: sources that are compiled by themselves.
      textual_hdrs: as in cc_library.
      testonly: as in cc_library.
      **attributes: as in cc_library.
    """
    sources = [file for file in srcs if _is_source(file)]
    headers = [file for file in srcs if not _is_source(file)]
    if len(sources) > 1:
        _unit(name = name + ".unit", srcs = sources, testonly = testonly, tags = ["manual"])
        srcs = headers + select({
            "//tools/rules:by_file": sources,
            "//conditions:default": [name + ".unit"],
        })
        textual_hdrs = textual_hdrs + select({
            "//tools/rules:by_file": [],
            "//conditions:default": sources,
        })
    cc_library(name = name, srcs = srcs + apart, textual_hdrs = textual_hdrs, testonly = testonly, **attributes)

def rondo_test(name, srcs = [], one_thread = [], deps = [], copts = TEST, size = "medium", tags = [], **attributes):
    """One program with the tests of a folder. doctest's filters (--test-case, --source-file) select among them.

    Args:
      name: of the test.
      srcs: tests, and headers of theirs.
      one_thread: more tests, which use one thread. ThreadSanitizer has nothing to find in them and does not run them.
      deps: as in cc_test; doctest's main() is among them without being named.
      copts: of the tests, see above.
      size: as in cc_test.
      tags: as in cc_test.
      **attributes: as in cc_test.
    """
    threaded = [file for file in srcs if _is_source(file)]
    headers = [file for file in srcs if not _is_source(file)]
    if not threaded:
        threaded = one_thread
        tags = tags + ["no-tsan"]
    sources = threaded + [file for file in one_thread if file not in threaded]
    _unit(
        name = name + ".unit",
        srcs = select({
            "//tools/rules:tsan": threaded,
            "//conditions:default": sources,
        }),
        testonly = True,
        tags = ["manual"],
    )
    cc_library(
        name = name + ".cases",
        testonly = True,
        srcs = headers + select({
            "//tools/rules:tsan_by_file": threaded,
            "//tools/rules:by_file": sources,
            "//conditions:default": [name + ".unit"],
        }),
        textual_hdrs = sources,
        alwayslink = True,
        copts = copts,
        tags = ["manual"],
        deps = deps + ["//third_party:doctest"],
    )
    cc_test(
        name = name,
        size = size,
        tags = tags,
        deps = [name + ".cases"],
        **attributes
    )
