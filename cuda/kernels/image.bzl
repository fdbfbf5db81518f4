"""Kernels as data: nvcc compiles them for each architecture, side by side, and the results stand in one fatbin."""

load("@cuda//:toolkit.bzl", "CUDA_VERSION", "NVCC")

# reduce.h says why the compiler must not contract a product and a sum.
_FLAGS = "-std=c++20 --expt-relaxed-constexpr -fmad=false"

def _is_known(since):
    have = [int(part) for part in CUDA_VERSION.split(".")[:2]]
    return have >= [int(part) for part in since.split(".")]

def _compile(image, kind, architecture, srcs, hdrs):
    """One image: "cubin" is code, "ptx" is the text that a driver makes code of."""
    native.genrule(
        name = image + "_rule",
        srcs = srcs + hdrs,
        outs = [image],
        tags = ["manual"],  # otherwise `//...` would build it a second time, in addition to the copy below
        # The command contains the version, so that another toolkit version compiles again.
        cmd = "%s %s -I. --%s -arch=%s_%s %s -o $@  # CUDA %s" % (
            NVCC,
            _FLAGS,
            kind,
            "sm" if kind == "cubin" else "compute",
            architecture,
            " ".join(["$(location %s)" % source for source in srcs]),
            CUDA_VERSION,
        ),
    )

def _join(name, images):
    """NAME: a fatbin of images (kind, architecture, file)."""
    native.genrule(
        name = name + "_rule",
        srcs = [image for _, _, image in images],
        outs = [name],
        tags = ["manual"],
        cmd = "%s --create=$@ -64 %s --compress-all %s" % (
            NVCC[:-len("nvcc")] + "fatbinary",
            "--compress-mode=speed" if _is_known("13.0") else "",
            " ".join(["--image3=kind=%s,sm=%s,file=$(location %s)" % image for image in images]),
        ),
    )

def fatbin(name, srcs, hdrs, architectures, ptx_only):
    """NAME.fatbin, and NAME.S, which puts it into a program as rondo_cuda_image.

    Args:
      name: of the fatbin.
      srcs: what nvcc compiles.
      hdrs: what that includes.
      architectures: "75" for sm_75, with the version of the toolkit that knew it first. Of those that this one knows there is
        code for each, and the PTX of the first and the last.
      ptx_only: a condition under which there is the PTX of the first alone. It compiles in a tenth of the time and serves the same
        GPUs; their driver makes code of it when it loads it first.
    """
    known = [architecture for architecture, since in architectures.items() if _is_known(since)]
    images = []
    for architecture in known:
        cubin = "%s_%s.cubin" % (name, architecture)
        ptx = "%s_%s.ptx" % (name, architecture)
        if architecture in (known[0], known[-1]):
            _compile(ptx, "ptx", architecture, srcs, hdrs)
            images.append(("ptx", architecture, ptx))
            _compile(cubin, "cubin", architecture, [ptx], [])  # the same bytes as from the source, but faster
        else:
            _compile(cubin, "cubin", architecture, srcs, hdrs)
        images.append(("elf", architecture, cubin))
    _join(name + "_all.fatbin", images)
    _join(name + "_ptx.fatbin", [image for image in images if image[:2] == ("ptx", known[0])])

    # A tool belongs to the configuration of the building machine, so all other configurations share one compilation.
    native.genrule(
        name = name + "_copy_rule",
        outs = [name + ".fatbin"],
        cmd = select({
            ptx_only: "cp $(location %s_ptx.fatbin) $@" % name,
            "//conditions:default": "cp $(location %s_all.fatbin) $@" % name,
        }),
        tools = select({
            ptx_only: [name + "_ptx.fatbin"],
            "//conditions:default": [name + "_all.fatbin"],
        }),
    )
    native.genrule(
        name = name + "_source_rule",
        srcs = [name + ".fatbin"],
        outs = [name + ".S"],
        # Compilers do not report files that .incbin names as inputs. So the source contains the fatbin's checksum, and
        # changes whenever the fatbin does.
        cmd = """cat >$@ <<END
/* $$(sha256sum <$<) */
    .section .rodata
    .balign 64
    .global rondo_cuda_image
    .hidden rondo_cuda_image
    .type rondo_cuda_image, @object
rondo_cuda_image:
    .incbin "$(location %s.fatbin)"
    .size rondo_cuda_image, . - rondo_cuda_image
    .section .note.GNU-stack, "", @progbits
END""" % name,
    )
