"""The averaging of OptINC: the function, its constructed networks, their proof, and the cascade."""

from lightloom.photonics.averaging.averagers import (
    TABLE_II_ERRORS,
    Averager,
    ErringAverager,
    ErrorDistribution,
    IdealAverager,
    NetworkAverager,
)
from lightloom.photonics.averaging.construct import Construction, build
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proved.noise import (
    noise_limit,
    noisy_accuracy,
    with_measured_full_scale,
)
from lightloom.photonics.averaging.proved.proof import Proof, prove
from lightloom.photonics.averaging.proved.verify import Verification, verify
from lightloom.photonics.averaging.realised.area import mzi_count
from lightloom.photonics.averaging.realised.files import FunctionArguments, load_network, save_network
from lightloom.photonics.averaging.realised.networks import LayeredNetwork

__all__ = [
    "TABLE_II_ERRORS",
    "Averager",
    "AveragingFunction",
    "Construction",
    "ErringAverager",
    "ErrorDistribution",
    "FunctionArguments",
    "IdealAverager",
    "LayeredNetwork",
    "NetworkAverager",
    "Proof",
    "Verification",
    "build",
    "load_network",
    "mzi_count",
    "noise_limit",
    "noisy_accuracy",
    "prove",
    "save_network",
    "verify",
    "with_measured_full_scale",
]
