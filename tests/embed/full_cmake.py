"""The build by CMake (CMakeLists.txt): built, installed and used, and added to another project."""

import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from test_dist import ROOT, run

sys.path.append(str(ROOT / "tests/support"))
from pages import write_files  # noqa: E402

BUILD_S = 3600
AT_ONCE = str(os.cpu_count() or 1)  # jobs; without a number CMake starts all of them at once


class CMakeBuild(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="rondo-cmake-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        build = cls.folder / "build"
        run("cmake", "-S", ROOT, "-B", build, f"-DCMAKE_INSTALL_PREFIX={cls.prefix}")
        run("cmake", "--build", build, "--parallel", AT_ONCE, timeout_s=BUILD_S)
        run("cmake", "--install", build)
        cls.rondo = cls.prefix / "bin/rondo"

    def project(self, name: str) -> Path:
        """A new folder with the README's C++ program and its CMakeLists.txt (README.md, folder sum)."""
        folder = self.folder / name
        folder.mkdir()
        write_files("README.md", folder)
        return folder / "sum"

    def builds_and_sums(self, project: Path, *options: str) -> None:
        run("cmake", "-B", "build", *options, cwd=project)
        run("cmake", "--build", "build", "--parallel", AT_ONCE, cwd=project, timeout_s=BUILD_S)
        printed = run(self.rondo, "run", "-N", "4", "build/sum", cwd=project)
        for rank in range(4):
            self.assertIn(f"rank {rank} of 4: the sum is 4\n", printed)

    def test_the_program_sums(self) -> None:
        for transport in ("shm", "tcp"):
            printed = run(self.rondo, "perf", "all", "-N", "2", "--transport", transport, "-b", "4", "-e", "64K", "-f", "128", "-n", "2", "-w", "0")
            self.assertIn("Wrong values     : 0 OK", printed)

    def test_the_library_has_the_interface_and_shows_nothing_else(self) -> None:
        run(sys.executable, ROOT / "tests/embed/abi", self.prefix / "lib/librondo.so")

    def test_an_installed_rondo_is_found(self) -> None:
        self.builds_and_sums(self.project("found"), f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def test_a_rondo_in_a_folder_of_libraries_for_one_architecture_is_found(self) -> None:
        prefix, library = self.folder / "multi", "lib/x86_64-linux-gnu"
        build = self.folder / "build"
        run("cmake", build, f"-DCMAKE_INSTALL_LIBDIR={library}")
        run("cmake", "--install", build, "--prefix", prefix)
        self.builds_and_sums(self.project("multi_project"), f"-DRondo_DIR={prefix / library}/cmake/Rondo")
        example = Path(shutil.copytree(ROOT / "examples/from_c", self.folder / "from_c"))
        run("make", cwd=example, PKG_CONFIG_PATH=f"{prefix / library}/pkgconfig")
        self.assertIn("rank 1 of 2: the sum is 1\n", run(self.rondo, "run", "-N", "2", "./all_reduce", cwd=example))

    def test_another_project_adds_rondo_as_a_subdirectory(self) -> None:
        project = self.project("added")
        (project / "rondo").symlink_to(ROOT)
        lists = project / "CMakeLists.txt"
        lists.write_text(lists.read_text().replace("find_package(Rondo 0.1 REQUIRED)", "add_subdirectory(rondo rondo-build)"))
        self.builds_and_sums(project)


if __name__ == "__main__":
    unittest.main()
