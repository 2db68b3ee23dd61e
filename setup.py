"""Optional parts of the build: C kernels of gradient codecs, and what plans and collectives call, compiled by Numba.

Without a C compiler Numba and NumPy take the place of the first, and Numba, where it is installed, compiles the second
at their first use. Both serve every version of Python.
"""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent))
from scripts.distribution import Sdist, Wheel, keywords

CODECS = Path("src/lightloom/exchange/compression")


def kernel(folder: Path, name: str) -> Extension:
    """A shared object of all C sources of a name; sums and products must round as the fallback's do."""
    return Extension(
        ".".join([*folder.parts[1:], name]),
        sources=sorted(map(str, folder.glob(f"{name}*.c"))),
        depends=[str(CODECS / "_kernel.h"), *map(str, folder.glob(f"{name}*.h"))],
        extra_compile_args=["-O3", "-g0", "-fvisibility=hidden", "-ffp-contract=off"],
        optional=True,
        # The kernels are called through ctypes and include no header of Python, so that one wheel serves every version.
        py_limited_api=True,
    )


class BuildKernels(build_ext):
    """Build C kernels, then those of Numba; ``LIGHTLOOM_COMPILE_AHEAD=0`` leaves these to their first use."""

    def build_extensions(self) -> None:
        # Folders of the Python that builds are none of the machine that the kernels run on.
        if hasattr(self.compiler, "linker_so"):
            self.compiler.linker_so = [word for word in self.compiler.linker_so if "-rpath" not in word]
        super().build_extensions()

    def run(self) -> None:
        super().run()
        if os.environ.get("LIGHTLOOM_COMPILE_AHEAD") != "0":
            packages = Path("src" if self.inplace or self.editable_mode else self.build_lib).absolute()
            # Plans name the version of the package, which is read from its metadata.
            self.run_command("egg_info")
            metadata = Path(self.get_finalized_command("egg_info").egg_base).absolute()
            command = [sys.executable, "-m", "lightloom.app.api.compile_ahead"]
            path = os.pathsep.join([str(packages), str(metadata), *filter(None, sys.path)])
            environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
            # Whoever builds for another machine has no use for a wheel that lacks them.
            done = subprocess.run(command, env=environment, check="LIGHTLOOM_TARGET" in os.environ)
            if done.returncode:
                self.announce("Kernels are not built: the package needs Numba, which compiles them when used.", level=3)


setup(
    ext_modules=[kernel(CODECS, "_inceptionn"), kernel(CODECS, "_blocks")],
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": Wheel, "sdist": Sdist},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    **keywords(),
)
