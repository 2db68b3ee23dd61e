"""What hypothesis draws: fabrics of every kind, collectives, and an algorithm that fits both."""

from __future__ import annotations

from hypothesis import strategies as st

from lightloom.collectives.registry import Algorithm, admitted
from lightloom.collectives.spec import KINDS, Collective
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.load import kinds
from lightloom.fabrics.wdm_ring import WdmRing

LATENCY = st.sampled_from([0.0, 1e-7, 1e-6, 1e-4])
SIZE = st.one_of(st.just(0.0), st.floats(min_value=1.0, max_value=1e10))


def wdm_ring(ranks: int, wavelengths: int, **fields: object) -> WdmRing:
    """A WDM ring as OpTree simulates it, but for the given fields."""
    return WdmRing.model_validate({"ranks": ranks, "wavelengths": wavelengths} | fields)


@st.composite
def wdm_rings(draw: st.DrawFn, largest: int = 40) -> WdmRing:
    return WdmRing(
        ranks=draw(st.integers(2, largest)),
        wavelengths=draw(st.integers(1, 20)),
        fibres=draw(st.integers(1, 3)),
        hop_latency=draw(LATENCY),
        reconfiguration_time=draw(LATENCY),
        conversion_time=draw(LATENCY),
        transceivers=draw(st.none() | st.integers(2, 60)),
    )


@st.composite
def fabrics(draw: st.DrawFn, largest: int = 40) -> Fabric:
    kind = draw(st.sampled_from(sorted(set(kinds()) - {"damaged-wdm-ring"})))
    if kind == "wdm-ring":
        return draw(wdm_rings(largest))
    fields: dict[str, object] = {"ranks": draw(st.integers(2, largest)), "hop_latency": draw(LATENCY)}
    if kind == "two-tier-switch":
        size = draw(st.integers(1, 8))
        fields |= {"domain_size": size, "ranks": size * draw(st.integers(1 if size > 1 else 2, 5))}
        fields["domain_latency"] = draw(LATENCY)
    if kind == "circuit-switch":
        fields["degree"] = draw(st.integers(1, 9))
        fields["reconfiguration_time"] = draw(LATENCY)
    return kinds()[kind].model_validate(fields)


@st.composite
def jobs(draw: st.DrawFn, fabric: st.SearchStrategy[Fabric] | None = None) -> tuple[Algorithm, Collective, Fabric]:
    """An algorithm, and a collective and fabric that it serves."""
    on = draw(fabric if fabric is not None else fabrics())
    choices = [(a, kind) for kind in KINDS for a in admitted(kind, on)]
    algorithm, kind = draw(st.sampled_from(choices))
    return algorithm, Collective(kind, on.ranks, draw(SIZE)), on  # type: ignore[arg-type]
