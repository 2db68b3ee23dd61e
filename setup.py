"""The one optional part of the build: the C kernel of the gradient codec. Without a compiler Numba takes its place."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "lightloom.compression._inceptionn",
            sources=["src/lightloom/compression/_inceptionn.c"],
            extra_compile_args=["-O3", "-fvisibility=hidden"],
            optional=True,
        )
    ]
)
