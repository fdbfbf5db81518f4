"""Which librondo the package takes: one copy for all of a process, of one version, or a sentence that says why not."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import ROOT, Installed

STUB = """
const char* rondo_version(void) { return "%s"; }
"""
USED = "print(rondo._librondo._path_of(rondo._library.lib))"


class OneLibrary(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.installed = Installed.shared()
        (cls.own,) = cls.installed.folder.glob("venv/lib/python*/site-packages/rondo/librondo.so.0")
        (cls.other,) = cls.installed.folder.glob("rondo-*/lib/librondo.so.0")
        cls.version = cls.run_python(f"import rondo; {USED}; print(rondo.__version__)").split()[-1]

    @classmethod
    def run_python(cls, program: str, status: int = 0) -> str:
        ran = subprocess.run([cls.installed.python, "-c", program], text=True, check=False, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=60)  # fmt: skip
        if ran.returncode != status:
            raise AssertionError(f"{program} ended with {ran.returncode}:\n{ran.stdout}")
        return ran.stdout

    def stub(self, folder: str, version: str) -> Path:
        """A library of that name and version without other functions."""
        Path(folder, "stub.c").write_text(STUB % version)
        made = Path(folder, "librondo.so.0")
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,librondo.so.0", "-o", made, Path(folder, "stub.c")], check=True)
        return made

    def test_its_own_copy_is_taken_where_no_other_is_loaded(self) -> None:
        self.assertEqual(self.run_python(f"import rondo; {USED}").strip(), str(self.own))

    def test_the_same_version_that_is_loaded_already_serves_the_package_too(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            said = self.run_python(f"""
import ctypes
first = ctypes.CDLL({str(self.other)!r})
import numpy, rondo
{USED}
assert rondo._library.lib._handle == first._handle
rondo.init("file://{folder}/rendezvous", rank=0, world_size=1)
print(rondo.allreduce(numpy.ones(3), op=rondo.Sum))
rondo.shutdown()
""")
        self.assertEqual(said, f"{self.other}\n[1. 1. 1.]\n")

    def test_another_version_is_refused_and_both_are_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            stub = self.stub(folder, "0.0.7")
            said = self.run_python(f"import ctypes; ctypes.CDLL({str(stub)!r}); import rondo", status=1)
        self.assertIn("ImportError: two versions of Rondo in one process: "
                      f"{stub} (0.0.7) is loaded already, and {self.own} is {self.version}. Install", said)  # fmt: skip

    def test_another_build_of_the_version_that_lacks_something_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            stub = self.stub(folder, self.version)
            said = self.run_python(f"import ctypes; ctypes.CDLL({str(stub)!r}); import rondo", status=1)
        self.assertRegex(said, rf"ImportError: {stub} \({self.version}\) has no rondo_\w+, which this package needs")

    def test_a_library_that_cannot_be_loaded_is_an_import_error_with_the_reason(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copytree(self.own.parent, Path(folder, "rondo")), "librondo.so.0")
            start = f"import sys; sys.path.insert(0, {folder!r}); import rondo"
            # Replaces the name of a needed library by a name of the same length that no machine has.
            copy.write_bytes(copy.read_bytes().replace(b"libfmt.so.", b"libfnt.so."))
            self.assertRegex(self.run_python(start, status=1), r"ImportError: librondo needs libfnt\.so\.\d+, which this machine does not have: on Debian")
            copy.write_text("nothing")
            self.assertRegex(self.run_python(start, status=1), rf"ImportError: librondo cannot be loaded: {copy}: .*: on Debian 12, apt-get install libfmt9")
            copy.unlink()
            self.assertIn(f"ImportError: {copy} is missing: pip install puts it there", self.run_python(start, status=1))

    def test_the_torch_backend_has_the_same_rule(self) -> None:
        here, there = ROOT / "embed/python/rondo/_librondo.py", ROOT / "embed/torch/rondo_torch/_librondo.py"
        self.assertEqual(here.read_text(), there.read_text())


if __name__ == "__main__":
    unittest.main()
