"""Optional parts of the build: C kernels of gradient codecs. Without a compiler Numba and NumPy take their place."""

from pathlib import Path

from setuptools import Extension, setup

CODECS = Path("src/lightloom/compression")


def kernel(folder: Path, name: str) -> Extension:
    """A shared object of all C sources of a name; sums and products must round as the fallback's do."""
    return Extension(
        ".".join([*folder.parts[1:], name]),
        sources=sorted(map(str, folder.glob(f"{name}*.c"))),
        depends=[str(CODECS / "_kernel.h"), *map(str, folder.glob(f"{name}*.h"))],
        extra_compile_args=["-O3", "-fvisibility=hidden", "-ffp-contract=off"],
        optional=True,
    )


setup(ext_modules=[kernel(CODECS, "_inceptionn"), kernel(CODECS / "blocks", "_blocks")])
