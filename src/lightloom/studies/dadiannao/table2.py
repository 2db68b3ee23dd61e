"""Table 2: layers, synapses and neurons of nine CNNs, counted from their graphs."""

from __future__ import annotations

from lightloom.core.claims import Claim
from lightloom.studies.dadiannao import PAPER
from lightloom.studies.dadiannao.networks import MIB, ZOO, Counted, counted, inception_variant
from lightloom.studies.dadiannao.paper import NEURON_BATCH, TABLE_2, Row

_SOFTMAX = 1000 * 4 * NEURON_BATCH / MIB
_LAST_TENSOR = 7 * 7 * 2048 * 4 * NEURON_BATCH / MIB
"""Size of an output of a ResNet's last stage, in MiB."""


def claims() -> tuple[Claim, ...]:
    """Return the rows of Table 2."""
    rows = [claim for name in TABLE_2 for claim in _rows(name, counted(name))]
    rows += _rows("Inception-v3", inception_variant(), "_variant")
    return (*rows, *(_without_one_tensor(name) for name in ("ResNet50", "ResNet101", "ResNet152")))


def sizes(counts: Counted) -> Row:
    """Return counts in the units of Table 2."""
    synapse = counts.network.synapses / MIB
    neuron = counts.network.neurons * NEURON_BATCH / MIB
    return Row(
        counts.network.layers,
        counts.convolutions,
        counts.connected,
        round(synapse, 2),
        round(neuron, 2),
        round(synapse / neuron, 4),
    )


_UNITS = {
    "layers": ("layers", 0.0),
    "convolutions": ("layers", 0.0),
    "connected": ("layers", 0.0),
    "synapse": ("MiB", 0.5),
    "neuron": ("MiB", 0.5),
    "ratio": ("", 0.005),
}
"""Unit and tolerance (half a unit of the last printed digit) of each count."""


def _rows(name: str, counts: Counted, suffix: str = "") -> list[Claim]:
    paper, ours = TABLE_2[name], sizes(counts)
    return [
        PAPER.claim(
            "table2.{what}_{network}{suffix}",
            getattr(ours, what),
            paper=getattr(paper, what),
            unit=unit,
            tolerance=tolerance,
            **({"basis": "derived"} if what == "ratio" else {}),
            what=what,
            network=_key(name),
            suffix=suffix,
            zoo=ZOO[name],
        )
        for what, (unit, tolerance) in _UNITS.items()
    ]


def _key(name: str) -> str:
    return name.lower().replace("-", "_")


def _without_one_tensor(name: str) -> Claim:
    ours = counted(name).network.neurons * NEURON_BATCH / MIB - _LAST_TENSOR + _SOFTMAX
    return PAPER.claim(
        "table2.neuron_{network}_without_one_tensor",
        round(ours, 2),
        paper=TABLE_2[name].neuron,
        network=_key(name),
        last_tensor=_LAST_TENSOR,
    )
