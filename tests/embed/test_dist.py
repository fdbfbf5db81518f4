"""The tarball of //embed:dist, as programs outside of this repository use it: unpacked elsewhere, built against by make and CMake, run, read."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARBALL = ROOT / "bazel-bin/embed/rondo.tar.gz"
RONDO = ROOT / "bazel-bin/tools/rondo"


def run(*command: object, cwd: Path | None = None, status: int = 0, timeout_s: float = 120, **environment: str) -> str:
    """Runs a command, which must end with `status`. Returns what it printed to both streams."""
    ran = subprocess.run([str(word) for word in command], cwd=cwd, env=os.environ | environment, text=True, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s)  # fmt: skip
    if ran.returncode != status:
        raise AssertionError(f"{command} ended with {ran.returncode}:\n{ran.stdout}")
    return ran.stdout


class Dist(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="rondo-dist-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        with tarfile.open(TARBALL) as tarball:
            tarball.extractall(cls.folder)
        (cls.installed,) = cls.folder.iterdir()

    def copy_of(self, example: str) -> Path:
        return Path(shutil.copytree(ROOT / "examples" / example, self.folder / example))

    def test_the_interface_is_what_it_was_and_nothing_else_shows(self) -> None:
        run(sys.executable, ROOT / "tests/embed/abi", self.installed / "lib/librondo.so")

    def test_the_library_has_a_version_in_its_name(self) -> None:
        self.assertIn("[librondo.so.0]", run("readelf", "--dynamic", self.installed / "lib/librondo.so"))
        version = re.search(r'"(.*)"', (ROOT / "base/version.h").read_text().split("kRondoVersion")[1])[1]
        self.assertEqual(self.installed.name, f"rondo-{version}")
        self.assertEqual((self.installed / "lib/librondo.so").resolve().name, f"librondo.so.{version}")

    def test_a_program_in_c_builds_by_make_and_runs(self) -> None:
        project = self.copy_of("from_c")
        run("make", cwd=project, PKG_CONFIG_PATH=str(self.installed / "lib/pkgconfig"))
        said = run(RONDO, "run", "-N", "3", "./all_reduce", cwd=project)
        for rank in range(3):
            self.assertIn(f"rank {rank} of 3: the sum is 3\n", said)

    def test_a_program_in_cpp_builds_by_cmake_and_runs(self) -> None:
        project = self.copy_of("from_cpp")
        run("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.installed}", cwd=project)
        run("cmake", "--build", "build", cwd=project)
        said = run(RONDO, "run", "-N", "4", "build/all_reduce", cwd=project)
        for rank in range(4):
            self.assertIn(f"rank {rank} of 4: the averages are 1.5 and 2\n", said)

    def test_cmake_refuses_a_version_that_does_not_fit(self) -> None:
        project = self.folder / "later"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(later NONE)\nfind_package(Rondo 0.2 REQUIRED)\n")
        said = run("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.installed}", cwd=project, status=1)
        self.assertIn("0.1.0", said)

    def compiled(self, name: str, source: str) -> Path:
        """Compiles a C++17 program against the tarball."""
        (self.folder / f"{name}.cc").write_text(source)
        prefix = self.installed
        run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{prefix}/include", self.folder / f"{name}.cc",
            "-o", self.folder / name, f"-L{prefix}/lib", "-lrondo", f"-Wl,-rpath,{prefix}/lib")  # fmt: skip
        return self.folder / name

    def test_a_program_in_cpp_fuses_many_small_tensors(self) -> None:
        program = self.compiled("fused", """
            #include <rondo.hpp>
            #include <cstdio>
            #include <vector>
            int main() try {
              rondo::Comm comm = rondo::Comm::Connect();
              rondo::Fusion fusion(comm, 100);
              std::vector<double> values(1000, comm.rank());
              for (double& value : values) fusion.Add(&value, &value, 1, RONDO_SUM);
              fusion.Flush();
              fusion.Wait();
              std::printf("%g\\n", values.front() + values.back());
              comm.Close();
            } catch (const rondo::Error& error) { std::puts(error.what()); return 1; }
        """)
        self.assertEqual(run(RONDO, "run", "-N", "3", program).count("6\n"), 3)

    def test_times_in_cpp_are_taken_or_refused_with_the_limit(self) -> None:
        program = self.compiled("times", """
            #include <rondo.hpp>
            #include <chrono>
            #include <cstdio>
            using std::chrono::milliseconds;
            int main() try {
              rondo::Comm comm = rondo::Comm::Connect();
              float value = 1;
              const auto sum = [&](milliseconds time) {
                try {
                  comm.AllReduce(&value, &value, 1, RONDO_SUM, rondo::Options().Timeout(time));
                  std::puts("taken");
                } catch (const rondo::Error& error) { std::puts(error.what()); }
              };
              sum(milliseconds(1'000'000'000'000));
              sum(milliseconds::max());
              sum(milliseconds(-5));
              try { comm.BarrierAsync().WaitFor(milliseconds::min()); } catch (const rondo::Error& error) { std::puts(error.what()); }
              comm.Leave(milliseconds(10'000));
            } catch (const rondo::Error& error) { std::puts(error.what()); return 1; }
        """)
        said = run(RONDO, "run", "-N", "2", program)
        for words in ("taken\n", "options.timeout_ms: 9223372036854775807 ms is more than 1000000000000 ms (31 years)",
                      "options.timeout_ms: -5 ms, or ", "timeout_ms: -9223372036854775808 ms, or "):  # fmt: skip
            self.assertEqual(said.count(words), 2, f"{words} in\n{said}")

    def test_a_program_says_in_c_and_in_cpp_why_it_cannot_connect(self) -> None:
        program = self.compiled("lost", """
            #include <rondo.hpp>
            #include <cstdio>
            int main() try { rondo::Comm::Connect(); }
            catch (const rondo::Error& error) { std::puts(error.what()); return error.code(); }
        """)
        said = run(program, status=1)
        self.assertIn("invalid_argument", said)
        self.assertIn("MASTER_ADDR", said)

    def test_the_manual_names_only_functions_that_there_are(self) -> None:
        manual = (self.installed / "share/man/man3/rondo.3").read_text()
        header = (self.installed / "include/rondo.h").read_text()
        named = set(re.findall(r"\brondo_\w+(?= \()|\brondo_\w+(?=\()", manual))
        self.assertGreater(len(named), 10)
        for name in named:
            self.assertRegex(header, rf"\b{name}\(")


if __name__ == "__main__":
    unittest.main()
