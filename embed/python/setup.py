"""pip install ./embed/python: installs the package, which is pure Python, and librondo. No compiler is needed.

librondo comes from bazel-bin; this script runs `bazel build --config=release //embed:librondo.so.0` if it is missing there. If
RONDO_PREFIX names the folder of an unpacked tarball, librondo comes from there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = "librondo.so.0"


class PlatformWheel(bdist_wheel):
    """A wheel for every version of Python, for one platform."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


def find_library() -> Path:
    prefix = os.environ.get("RONDO_PREFIX")
    if prefix:
        library = Path(prefix, "lib", LIBRARY).resolve()
        if not library.is_file():
            sys.exit(f"setup.py: RONDO_PREFIX={prefix} contains no lib/{LIBRARY}")
        return library
    built = ROOT / "bazel-bin/embed" / LIBRARY
    if not built.is_file():
        subprocess.run(["bazel", "build", "--config=release", f"//embed:{LIBRARY}"], cwd=ROOT, check=True)
    return built


target = HERE / "rondo" / LIBRARY
if target.exists():
    target.unlink()
shutil.copyfile(find_library(), target)

setup(packages=["rondo"], package_data={"rondo": [LIBRARY]}, cmdclass={"bdist_wheel": PlatformWheel})
