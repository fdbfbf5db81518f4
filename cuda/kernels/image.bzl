"""Kernels as data: nvcc compiles them for each architecture, side by side, and the results stand in one fatbin."""

load("@cuda//:toolkit.bzl", "CUDA_VERSION", "NVCC")

# fold.h says why nothing may be contracted.
_FLAGS = "-std=c++20 --expt-relaxed-constexpr -fmad=false"

def _is_known(since):
    have = [int(part) for part in CUDA_VERSION.split(".")[:2]]
    return have >= [int(part) for part in since.split(".")]

def fatbin(name, srcs, hdrs, architectures):
    """NAME.fatbin, and NAME.S, which puts it into a program as rondo_cuda_image.

    architectures: "75" for sm_75, with the version of the toolkit that knew it first. Of those that this one knows there is code for
    each, and the PTX of the first and the last.
    """
    known = [architecture for architecture, since in architectures.items() if _is_known(since)]
    images = []
    for kind, architecture in [("elf", a) for a in known] + [("ptx", a) for a in (known[0], known[-1])]:
        image = "%s_%s.%s" % (name, architecture, "cubin" if kind == "elf" else "ptx")
        native.genrule(
            name = image + "_rule",
            srcs = srcs + hdrs,
            outs = [image],
            tags = ["manual"],  # else it would be built for `//...` as well, beside the copy below
            # The version is there so that another toolkit compiles anew.
            cmd = "%s %s -I. --%s -arch=%s_%s %s -o $@  # CUDA %s" % (
                NVCC,
                _FLAGS,
                "cubin" if kind == "elf" else "ptx",
                "sm" if kind == "elf" else "compute",
                architecture,
                " ".join(["$(location %s)" % source for source in srcs]),
                CUDA_VERSION,
            ),
        )
        images.append((kind, architecture, image))
    native.genrule(
        name = name + "_fatbin_rule",
        srcs = [image for _, _, image in images],
        outs = [name + "_host.fatbin"],
        tags = ["manual"],
        cmd = "%s --create=$@ -64 %s --compress-all %s" % (
            NVCC[:-len("nvcc")] + "fatbinary",
            "--compress-mode=speed" if _is_known("13.0") else "",
            " ".join(["--image3=kind=%s,sm=%s,file=$(location %s)" % image for image in images]),
        ),
    )

    # As a tool it belongs to the configuration of the machine that builds, and is compiled once for all others.
    native.genrule(
        name = name + "_copy_rule",
        outs = [name + ".fatbin"],
        cmd = "cp $(location %s_host.fatbin) $@" % name,
        tools = [name + "_host.fatbin"],
    )
    native.genrule(
        name = name + "_source_rule",
        srcs = [name + ".fatbin"],
        outs = [name + ".S"],
        # Compilers do not say that they have read what is named in .incbin: so that it is read again, its sum stands there.
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
