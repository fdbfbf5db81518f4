"""pip install ./embed/torch: builds the backend against the installed torch, and adds librondo.

librondo comes from bazel-bin; this script runs `bazel build --config=release //embed:librondo.so.0` if it is missing there. If
RONDO_PREFIX names the folder of an unpacked tarball, librondo comes from there.
"""

import importlib.util
import os
import re
import shutil
import site
import subprocess
import sys
from pathlib import Path

from setuptools import setup



def folders_of_packages() -> list[str]:
    """The folders of packages of this environment, which pip hides. A virtual environment sees those of its base only if it was made so."""
    if sys.prefix == sys.base_prefix:
        return [site.getusersitepackages(), *site.getsitepackages()]
    settings = Path(sys.prefix, "pyvenv.cfg").read_text()
    sees_base = re.search(r"^include-system-site-packages\s*=\s*true", settings, re.MULTILINE | re.IGNORECASE)
    return site.getsitepackages([sys.prefix, sys.base_prefix] if sees_base else [sys.prefix])


if importlib.util.find_spec("torch") is None:
    # pip builds in an isolated environment without the installed packages, so also without the torch that this build must fit.
    sys.path += [folder for folder in folders_of_packages() if Path(folder).is_dir()]
    if importlib.util.find_spec("torch") is None:
        sys.exit(f"setup.py: this environment ({sys.prefix}) has no torch to build rondo_torch for: install torch first")
import torch  # noqa: E402
from torch.utils.cpp_extension import BuildExtension, CppExtension  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = "librondo.so.0"


def find_rondo() -> tuple[Path, Path]:
    """Returns the folder of rondo.h, and the path of librondo."""
    prefix = os.environ.get("RONDO_PREFIX")
    if prefix:
        library = Path(prefix, "lib", LIBRARY).resolve()
        if not library.is_file():
            sys.exit(f"setup.py: RONDO_PREFIX={prefix} contains no lib/{LIBRARY}")
        return Path(prefix, "include"), library
    built = ROOT / "bazel-bin/embed" / LIBRARY
    if not built.is_file():
        subprocess.run(["bazel", "build", "--config=release", f"//embed:{LIBRARY}"], cwd=ROOT, check=True)
    return ROOT / "embed", built


include, library = find_rondo()
package = HERE / "rondo_torch"
target = package / LIBRARY
if target.exists():
    target.unlink()
shutil.copyfile(library, target)
(package / "_built.py").write_text(
    f"""# Written by setup.py: what the compiled part was built for.
PYTHON = "{sys.version_info[0]}.{sys.version_info[1]}"
TORCH = "{torch.__version__}"
TORCH_AT = {str(Path(torch.__file__).parent)!r}
"""
)

# One compilation unit of all sources, because each unit would compile torch's headers again, for about 20 s.
unit = HERE / "build/rondo_torch.cc"
unit.parent.mkdir(exist_ok=True)
unit.write_text("".join(f'#include "{path.name}"\n' for path in sorted((HERE / "csrc").glob("*.cc"))))

standard = "-std=c++20" if int(torch.__version__.split(".")[0]) >= 2 else "-std=c++17"  # as torch's headers require
setup(
    name="rondo_torch",
    version="0.1.0",
    description="Rondo as a backend of torch.distributed",
    packages=["rondo_torch"],
    py_modules=["rondo_torch_lazily"],
    entry_points={"torch.backends": ["rondo = rondo_torch_lazily:register"]},
    package_data={"rondo_torch": [LIBRARY]},
    ext_modules=[
        CppExtension(
            "rondo_torch._backend",
            [str(unit.relative_to(HERE))],
            include_dirs=[str(include), str(HERE / "csrc")],
            extra_compile_args=[standard, "-O2", "-g0", "-Wall", "-Wno-deprecated-declarations"],
            extra_link_args=[str(target), "-Wl,-rpath,$ORIGIN"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
