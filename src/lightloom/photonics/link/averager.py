"""An averager of gradients whose codes pass a fabricated link, noise and all."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from lightloom.core.arrays import Codes, Ints
from lightloom.core.errors import InputError
from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.link.chip import design_chip
from lightloom.photonics.link.settings import Link
from lightloom.photonics.link.simulate import FabricatedLink
from lightloom.photonics.meshes.mesh_mapping import BALANCED, MeshMapping
from lightloom.photonics.pam4 import check_codes

_AT_ONCE = 1 << 13


class LinkAverager:
    """Averager on one fabrication of a link; all ranks take what the first server receives.

    Args:
        network: the averaging network.
        arguments: of its function.
        link: everything that errs.
        seed: seed of the noise.
        fabrication: seed of the chip, the servers and the receivers: equal on all ranks, which share one chip.
        mapping: of the network's matrices to meshes.
    """

    def __init__(
        self,
        network: LayeredNetwork,
        arguments: FunctionArguments,
        link: Link,
        seed: int = 0,
        fabrication: int = 0,
        mapping: MeshMapping = BALANCED,
    ) -> None:
        self.made = FabricatedLink(design_chip(network, arguments, mapping), link, (fabrication, 0))
        self.servers, self.bits, self.rounding = arguments.servers, arguments.bits, arguments.rounding
        self.arguments = asdict(link)
        self.rng = np.random.default_rng(seed)
        """Generator of the noise; checkpoints store its state."""

    def __call__(self, codes: Codes) -> Ints:
        if codes.ndim != 2 or codes.shape[0] != self.servers:
            raise InputError(f"codes of shape {codes.shape}: expected ({self.servers}, n), one row per server")
        values = check_codes(codes, self.bits)
        received = np.empty(values.shape[1], np.int64)
        for start in range(0, values.shape[1], _AT_ONCE):
            chunk = slice(start, start + _AT_ONCE)
            received[chunk] = self.made.receive(values[:, chunk], self.rng)[0]
        return received
