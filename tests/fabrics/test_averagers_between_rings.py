"""Four rings whose counterparts averagers join: words, overhead, seconds and joules as formulas give them by hand."""

from __future__ import annotations

import pytest

import lightloom as ll
from lightloom.app.api.planning import ExchangeChoice
from lightloom.exchange.method import Gradient, sent_in_phase
from lightloom.exchange.methods import find
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.joined import JoinedFabric
from lightloom.machines.fabrics.load import fabric_from
from lightloom.planning.pricing.group_prices import GroupPrices

RINGS, VALUES, BLOCK = 4, 2**24, 256


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("ring", [4, 8])
def test_words_and_overheads_are_those_of_the_paper(ring: int, bits: int) -> None:
    """A ring sends 2 (N - 1) / N of a gradient, (N - 2) / N more than it has (OptINC, section I); a rank of it then has
    1 / N of the words, each of which passes the averager once (Fig. 6) as ceil(B / 2) signals of 2 bits (eq. 1); the
    exponents of blocks are less than 0.4 % of codes of 8 bits (section IV)."""
    method = find(f"two-level:node={ring},between=(optical:bits={bits},block={BLOCK})")
    scatter, exponents, codes, gather = method.phases(Gradient.flat(VALUES), RINGS * ring)
    inside = sum(sent_in_phase(phase, ring) for phase in (scatter, gather)) / (4 * VALUES)
    assert inside == pytest.approx(1 + (ring - 2) / ring)
    signals = VALUES // ring * (bits // 2)
    assert 8 * codes.nbytes == 2 * signals
    share = exponents.nbytes / RINGS / codes.nbytes
    assert share == 8 / bits / BLOCK < 0.004 * 8 / bits


@pytest.mark.parametrize("ring", [4, 8])
def test_seconds_and_joules_follow_from_rounds_and_words(ring: int) -> None:
    """2 (N - 1) rounds of 1 / N of the gradient around each ring, then each word up to the averager and down again. The
    paper states no joules: a bit takes what the link that it passes states."""
    fields = {"hop_latency": 0, "energy_per_bit": 1e-12}
    fabric = JoinedFabric(
        ranks=RINGS * ring,
        inside=fabric_from({"kind": "ring", "bandwidth": 2e9} | fields, ring, where="test"),
        between=fabric_from({"kind": "optical-averager", "bandwidth": 4e9} | fields, RINGS, where="test"),
    )
    choice = ExchangeChoice((f"two-level:node={ring},between=(optical:bits=16,block={BLOCK})",), None, None, None)
    accelerator, training = ll.load_cluster("dgx-a100-64").accelerator, TrainingSettings()
    exchanges = [each.on(accelerator) for each in choice.priced("hdc", ll.trace("hdc", batch=1))]
    prices = GroupPrices(fabric, training, exchanges=exchanges, choices=("ring", "in-network"))
    cost = prices.price("auto", fabric.ranks, 1)("all-reduce", training.gradient_bytes * VALUES).cost

    around = 2 * (ring - 1) * (4 * VALUES / ring)  # bytes that a rank sends around its ring
    words = 2 * VALUES / ring + VALUES / ring / BLOCK  # bytes of codes and exponents that it sends to its averager
    seconds = around / 2e9 + words / 4e9
    assert cost.repeated_time - cost.encode - cost.decode == pytest.approx(seconds, rel=1e-5)
    assert cost.energy == pytest.approx(RINGS * ring * (around + 2 * words) * 8 * 1e-12, rel=1e-5)
