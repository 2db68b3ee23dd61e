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
    rows = [claim for name in TABLE_2 for claim in _rows(name, counted(name), "", _WHY.get(name, {}))]
    rows += _rows("Inception-v3", inception_variant(), "_variant", dict.fromkeys(("layers", "convolutions"), _VARIANT))
    rows += [_without_one_tensor(name) for name in ("ResNet50", "ResNet101", "ResNet152")]
    return tuple(rows)


def sizes(found: Counted) -> Row:
    """Return counts in the units of Table 2."""
    synapse = found.network.synapses / MIB
    neuron = found.network.neurons * NEURON_BATCH / MIB
    return Row(
        found.network.layers,
        found.convolutions,
        found.connected,
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
_VARIANT = (
    "a guess at another Inception-v3: two blocks A, five blocks C of 192 channels, 299 px; the footnote's 224 px would "
    "give about half of the printed neurons"
)
_INCEPTION_3 = (
    "the published network at 299 px; at the footnote's 224 px neurons would be 751 MiB. The printed sizes need more "
    "blocks C and fewer A (see the variant)"
)
_RESNET = {
    "layers": "without the input, which counts in the other networks",
    "convolutions": "the paper leaves out the four projections of the shortcuts, but counts their weights and outputs",
    "neuron": "all three ResNets exceed the print by the same 11.7 MiB",
}
_WHY: dict[str, dict[str, str]] = {
    "Inception-v1": {
        "convolutions": "20 is neither all convolutions, 57, nor the longest path, 21",
        "neuron": "GoogLeNet of 2014 without local response normalisation and concatenations, 0.3 % below the print",
        "layers": "input, convolutions, pooling, the fully connected layer",
    },
    "Inception-v3": dict.fromkeys(("layers", "synapse", "neuron", "ratio"), _INCEPTION_3)
    | {"convolutions": "56 is neither all convolutions, 94, nor the longest path, 47"},
    "ResNet50": _RESNET,
    "ResNet101": _RESNET,
    "ResNet152": _RESNET,
}


def _rows(name: str, found: Counted, suffix: str, why: dict[str, str]) -> list[Claim]:
    paper, ours = TABLE_2[name], sizes(found)
    return [
        PAPER.claim(
            "table2.{what}_{network}{suffix}",
            getattr(ours, what),
            paper=getattr(paper, what),
            unit=unit,
            tolerance=tolerance,
            why=why.get(what, f"lightloom's {ZOO[name]}" if not suffix else _VARIANT),
            what=what,
            network=_key(name),
            suffix=suffix,
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
