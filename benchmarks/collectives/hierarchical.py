"""All-reduces on domains and rails beside the proved bound: 1 KiB to 4 GiB, 16 to 1,024 GPUs and racks of 72.

python -m benchmarks.collectives.hierarchical

The fabrics are those of the catalog, latency of links included, without what software adds. The last table says what
1 GiB takes on 64 GPUs when links reach all of their rate, or what the catalog says they reach, with latency and
without.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from benchmarks.support.measure import parse_no_options
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.loads import StepLoads
from lightloom.collectives.cost.stepped import loads_cost
from lightloom.collectives.registry import build_with_loads, find
from lightloom.core.units import format_size, format_time
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import load_fabric

FABRICS = (
    ("dgx-h100", 16),
    ("dgx-h100", 32),
    ("dgx-h100", 64),
    ("dgx-h100", 128),
    ("dgx-h100", 256),
    ("dgx-h100-superpod", 512),
    ("dgx-h100-superpod", 1024),
    ("gb200-nvl72-racks", 144),
    ("gb200-nvl72-racks", 576),
)
SIZES = tuple(float(1 << power) for power in range(10, 33, 2))
ALGORITHMS = ("hierarchical", "recursive-doubling", "halving-doubling")
LIMIT = 1.25


class Cell(NamedTuple):
    """The fastest all-reduce of one size on one fabric."""

    fabric: str
    ranks: int
    nbytes: float
    algorithm: str
    seconds: float
    bound: float
    bound_by: str
    latency: float
    """Seconds that the same steps take without any bytes."""
    pieces: int

    @property
    def ratio(self) -> float:
        return self.seconds / self.bound

    @property
    def limited_by(self) -> str:
        """What most of the time beyond the bound goes to."""
        beyond = self.seconds - self.bound
        if self.latency >= beyond / 2:
            return f"latency of {format_time(self.latency)}, {self.latency / self.seconds:.0%} of the time"
        return "links inside domains, and pieces that fill and drain"


def cells(name: str, ranks: int) -> list[Cell]:
    """The fastest of the algorithms for every size."""
    fabric = load_fabric(name, ranks=ranks)
    loads = {
        algorithm: build_with_loads(find(algorithm), Collective("all-reduce", ranks, 0.0), fabric)[1]
        for algorithm in ALGORITHMS
    }
    return [
        min((_cell(name, fabric, nbytes, *pair) for pair in loads.items()), key=lambda cell: cell.seconds)
        for nbytes in SIZES
    ]


def _cell(name: str, fabric: Fabric, nbytes: float, algorithm: str, loads: StepLoads | None) -> Cell:
    assert loads is not None, "these algorithms have steps"
    loads, collective = loads.at_size(nbytes, fabric), Collective("all-reduce", fabric.ranks, nbytes)
    empty = replace(loads, collective=Collective("all-reduce", fabric.ranks, 0.0))
    bound = lower_bound(collective, fabric)
    return Cell(
        fabric=name,
        ranks=fabric.ranks,
        nbytes=nbytes,
        algorithm=algorithm,
        seconds=loads_cost(loads, fabric).time,
        bound=bound.time,
        bound_by=bound.bound_by,
        latency=loads_cost(empty, fabric).time,
        pieces=loads.pieces,
    )


def at_rates(nvlink: float, rail: float, *, latency: bool) -> Cell:
    """1 GiB on 64 GPUs whose links reach so much of their rate."""
    fabric = load_fabric("dgx-h100", ranks=64)
    fields = fabric.model_dump(exclude={"sources"})
    for tier, efficiency in zip(fields["tiers"], (nvlink, rail), strict=True):
        tier |= {"wire_efficiency": efficiency} | ({} if latency else {"latency": 0.0})
    fabric = type(fabric).model_validate(fields)
    loads = build_with_loads(find("hierarchical"), Collective("all-reduce", 64, 0.0), fabric)[1]
    return _cell("dgx-h100", fabric, float(1 << 30), "hierarchical", loads)


def _print_rates() -> None:
    print("\n1 GiB on 64 GPUs of dgx-h100\n\n| NVLink | rails | time | without latency | bound | bound set by |")
    print("| ---: | ---: | ---: | ---: | ---: | --- |")
    nvlink, rail = (tier.wire_efficiency for tier in load_fabric("dgx-h100", ranks=64).tier_list())  # type: ignore[attr-defined]
    for rates in ((1.0, 1.0), (1.0, rail), (nvlink, 1.0), (nvlink, rail)):
        cell, at_once = at_rates(*rates, latency=True), at_rates(*rates, latency=False)
        print(
            f"| {rates[0]:.4g} | {rates[1]:.4g} | {format_time(cell.seconds)} | {format_time(at_once.seconds)} | "
            f"{format_time(cell.bound)} | {cell.bound_by} |"
        )


def main() -> None:
    """A table for each fabric, and one of rates."""
    for name, ranks in FABRICS:
        print(f"\n{name}, {ranks} GPUs\n\n| size | algorithm | pieces | time | bound | ratio | what limits |")
        print("| ---: | --- | ---: | ---: | ---: | ---: | --- |")
        for cell in cells(name, ranks):
            limits = cell.limited_by if cell.ratio > LIMIT else cell.bound_by
            print(
                f"| {format_size(cell.nbytes)} | {cell.algorithm} | {cell.pieces} | {format_time(cell.seconds)} | "
                f"{format_time(cell.bound)} | {cell.ratio:.2f} | {limits} |"
            )
    _print_rates()


if __name__ == "__main__":
    parse_no_options(__doc__)
    main()
