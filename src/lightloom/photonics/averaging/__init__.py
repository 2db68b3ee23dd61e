"""The averaging of OptINC: the function, its constructed networks, their proof, and the cascade."""

from lightloom.photonics.averaging.area import mzi_count
from lightloom.photonics.averaging.construct import Construction, build
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.networks import LayeredNetwork
from lightloom.photonics.averaging.noise import noise_curve, noise_limit, noisy_accuracy, with_measured_full_scale
from lightloom.photonics.averaging.proof import Proof, prove
from lightloom.photonics.averaging.verify import Verification, verify

__all__ = [
    "AveragingFunction",
    "Construction",
    "LayeredNetwork",
    "Proof",
    "Verification",
    "build",
    "mzi_count",
    "noise_curve",
    "noise_limit",
    "noisy_accuracy",
    "prove",
    "verify",
    "with_measured_full_scale",
]
