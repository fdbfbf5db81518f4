"""Builds fake_cuda for the torch that is here; the test says where CUDA's headers, the fake driver and the repository are."""

import os

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="fake_cuda",
    packages=[],
    ext_modules=[
        CppExtension(
            "fake_cuda",
            ["fake_cuda.cc"],
            include_dirs=[os.environ["CUDA_HEADERS"], os.environ["RONDO_ROOT"]],
            extra_compile_args=["-std=c++20", "-O1", "-g0", "-Wall"],
            extra_link_args=[os.environ["FAKE_DRIVER"]],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
