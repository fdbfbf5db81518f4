"""The Python package on arrays of other libraries: TensorFlow and JAX where they are installed, and fakes that export and take
memory as those do, everywhere. tools/dev/packages/frameworks installs the real ones."""

import importlib.util
import sys
import unittest

from support import Installed, Ranks


class Frameworks(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.installed = Installed.shared()

    def check(self, library: str, world: int) -> None:
        for rank, one in enumerate(Ranks(self.installed, "frameworks.py", world, library).end()):
            self.assertEqual(one.status, 0, f"rank {rank} of frameworks.py {library}:\n{one.said}")

    def check_real(self, library: str) -> None:
        if importlib.util.find_spec(library) is None:
            self.skipTest(f"{library}: {sys.executable} has none; tools/dev/packages/frameworks installs it")
        self.check(library, 2)

    def test_results_are_arrays_of_the_same_library_and_what_never_changes_is_refused_in_place(self) -> None:
        for library in ("fake_tensorflow", "fake_jax", "elsewhere"):
            for world in (2, 3):
                with self.subTest(library=library, world=world):
                    self.check(library, world)

    def test_tensors_of_tensorflow(self) -> None:
        self.check_real("tensorflow")

    def test_arrays_of_jax(self) -> None:
        self.check_real("jax")


if __name__ == "__main__":
    unittest.main()
