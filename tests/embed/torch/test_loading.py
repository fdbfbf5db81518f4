"""The first import of the backend where something does not fit: one sentence, as an ImportError, before anything is loaded."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import ROOT, Installed


class Loading(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.installed = Installed.shared()

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.package = Path(shutil.copytree(Path(self.installed.path, "rondo_torch"), self.folder / "rondo_torch"))

    def said(self, before: str = "") -> str:
        """The last line of Python's output for the import."""
        ran = subprocess.run([sys.executable, "-c", f"{before}\nimport rondo_torch"], env=os.environ | {"PYTHONPATH": str(self.folder)},
                             cwd=self.folder, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        self.assertEqual(ran.returncode, 1, ran.stdout)
        return ran.stdout.splitlines()[-1]

    def built_for(self, **what: str) -> None:
        path = self.package / "_built.py"
        text = path.read_text()
        for name, value in what.items():
            text = re.sub(rf"^{name} = .*$", f"{name} = {value!r}", text, flags=re.MULTILINE)
        path.write_text(text)

    def test_built_for_another_torch(self) -> None:
        self.built_for(TORCH="0.4.1")
        said = self.said()
        self.assertRegex(said, r"^ImportError: rondo_torch was built for torch 0\.4\.1, and this is torch \d+\.\d+.*: python -m pip install")

    def test_built_for_a_torch_that_is_not_seen(self) -> None:
        self.built_for(TORCH_AT="/elsewhere/torch")
        said = self.said("import sys; sys.modules['torch'] = None")
        self.assertRegex(said, r"^ImportError: .* of /elsewhere/torch, and this environment \(.*\) has no torch: install torch here")

    def test_not_built(self) -> None:
        (self.package / "_built.py").unlink()
        self.assertRegex(self.said(), "^ImportError: rondo_torch has not been built here: python -m pip install")

    def test_built_for_another_python(self) -> None:
        (compiled,) = self.package.glob("_backend*.so")
        compiled.rename(self.package / "_backend.cpython-27-x86_64-linux-gnu.so")
        self.built_for(PYTHON="2.7")
        self.assertRegex(self.said(), "^ImportError: rondo_torch was built for Python 2.7, and this is Python 3")

    def test_compiled_for_what_is_not_here_after_all(self) -> None:
        (compiled,) = self.package.glob("_backend*.so")
        shutil.copyfile(self.package / "librondo.so.0", compiled)  # can be loaded, but is no module
        self.assertRegex(self.said(), "^ImportError: rondo_torch, built for torch .*, does not fit the torch that is here: python -m pip")

    def test_without_the_compiled_part(self) -> None:
        (compiled,) = self.package.glob("_backend*.so")
        compiled.unlink()
        said = self.said()
        self.assertRegex(said, rf"^ImportError: {re.escape(str(compiled))}, the compiled part of rondo_torch, is missing: python -m pip")

    def test_without_librondo(self) -> None:
        (self.package / "librondo.so.0").unlink()
        self.assertRegex(self.said(), r"^ImportError: .*/librondo\.so\.0, which belongs beside rondo_torch, is missing: python -m pip")

    def test_without_a_library_that_librondo_needs(self) -> None:
        library = self.package / "librondo.so.0"
        # A name of the same length that no machine has.
        library.write_bytes(library.read_bytes().replace(b"libfmt.so.", b"libfnt.so."))
        self.assertRegex(self.said(), r"^ImportError: librondo needs libfnt\.so\.\d+, which this machine does not have: on Debian 12")

    def test_setup_refuses_an_environment_without_torch(self) -> None:
        """What it would build could not be used there."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder / "venv"], check=True)
        (self.folder / "setuptools.py").write_text("setup = None\n")
        ran = subprocess.run([self.folder / "venv/bin/python", ROOT / "embed/torch/setup.py", "--version"], text=True, check=False,
                             env=os.environ | {"PYTHONPATH": str(self.folder)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stdout, r"^setup\.py: this environment \(.*/venv\) has no torch to build rondo_torch for: install torch first$")


if __name__ == "__main__":
    unittest.main()
