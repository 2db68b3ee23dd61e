"""The one optional part of the build: the C kernel of the gradient codec. Without a compiler Numba takes its place."""

from pathlib import Path

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "lightloom.compression._inceptionn",
            sources=sorted(map(str, Path("src/lightloom/compression").glob("_inceptionn*.c"))),
            depends=["src/lightloom/compression/_inceptionn.h"],
            extra_compile_args=["-O3", "-fvisibility=hidden"],
            optional=True,
        )
    ]
)
