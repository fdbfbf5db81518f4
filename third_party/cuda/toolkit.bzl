"""The CUDA toolkit of this machine as a repository, or its absence.

It is looked for where CUDA_HOME says ("none": nowhere), beside the nvcc on PATH, and in /usr/local/cuda. What is used of it are nvcc and
<cuda.h>: no library of it is linked, for the driver is loaded at run time and the kernels come as data.

    @cuda//:headers              <cuda.h>
    @cuda//:toolkit.bzl          CUDA_FOUND, NVCC (a path; "" where there is none), CUDA_VERSION

Bazel looks again when CUDA_HOME or PATH changes, or after `bazel sync --configure`.
"""

def _nvcc(context):
    home = context.os.environ.get("CUDA_HOME", "")
    if home == "none":
        return None
    if home:
        nvcc = context.path(home + "/bin/nvcc")
        if not nvcc.exists:
            fail("CUDA_HOME is %s, and there is no bin/nvcc" % home)
        return nvcc
    found = context.which("nvcc")
    if found:
        return found.realpath
    usual = context.path("/usr/local/cuda/bin/nvcc")
    return usual.realpath if usual.exists else None

_FOUND = """
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "headers",
    hdrs = ["include/cuda.h"],
    includes = ["include"],
    visibility = ["//visibility:public"],
)
"""

_ABSENT = """
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "headers",
    visibility = ["//visibility:public"],
)
"""

_TOOLKIT = """
CUDA_FOUND = {found}
NVCC = "{nvcc}"
CUDA_VERSION = "{version}"
"""

def _cuda_toolkit_impl(context):
    nvcc = _nvcc(context)
    if nvcc == None:
        context.file("BUILD", _ABSENT)
        context.file("toolkit.bzl", _TOOLKIT.format(found = False, nvcc = "", version = ""))
        return
    asked = context.execute([nvcc, "--version"])
    if asked.return_code != 0:
        fail("%s --version: %s" % (nvcc, asked.stderr))
    version = asked.stdout.split(", V")[1].split("\n")[0]  # "Cuda compilation tools, release 13.0, V13.0.88"
    header = nvcc.dirname.dirname.get_child("include").get_child("cuda.h")
    if not header.exists:
        fail("%s is there, and %s is not" % (nvcc, header))
    context.symlink(header, "include/cuda.h")
    context.file("BUILD", _FOUND)
    context.file("toolkit.bzl", _TOOLKIT.format(found = True, nvcc = nvcc, version = version))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    configure = True,
    environ = [
        "CUDA_HOME",
        "PATH",
    ],
)
