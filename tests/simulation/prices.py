"""Collectives at made-up prices."""

from __future__ import annotations

from hypothesis import strategies as st

from lightloom.collectives.cost.price import Cost
from lightloom.planning.simulation.engine import Price, Priced


def cost(
    transmission: float, setup: float = 0.0, later: float = 0.0, conversion: float = 0.0, codec: float = 0.0
) -> Cost:
    """A cost with ``later`` seconds of circuit changes after the first (static without them), and ``codec`` seconds of
    encoding and half as many of decoding."""
    return Cost(
        steps=1,
        time=transmission + setup + later + conversion + 1.5 * codec,
        transmission=transmission,
        conversion=conversion,
        reconfiguration=setup + later,
        setup=setup,
        static=later == 0,
        energy=None,
        encode=codec,
        decode=codec / 2,
    )


def linear(
    bandwidth: float,
    latency: float = 0.0,
    setup: float = 0.0,
    later: float = 0.0,
    circuits: str | None = None,
    codec: float = 0.0,
) -> Price:
    """Latency plus bytes over bandwidth, whatever the kind; ``circuits`` may hold ``{kind}``."""

    def price(kind: str, nbytes: float) -> Priced:
        return Priced(
            cost=cost(latency + nbytes / bandwidth, setup, later, codec=codec),
            circuits=circuits and circuits.format(kind=kind),
        )

    return price


prices = st.builds(
    linear,
    bandwidth=st.sampled_from([1e8, 1e10, 1e12]),
    latency=st.sampled_from([0.0, 1e-5]),
    setup=st.sampled_from([0.0, 25e-6, 1e-2]),
    later=st.sampled_from([0.0, 1e-4]),
    circuits=st.sampled_from([None, "ring", "{kind}"]),
    codec=st.sampled_from([0.0, 1e-4]),
)
