"""The best wiring for an all-to-all on a ring."""

from __future__ import annotations

from lightloom.collectives.synthesis.exchange_circuits import Wiring
from lightloom.collectives.synthesis.exchange_paths import Exchange, Plan, plan
from lightloom.collectives.synthesis.hubs import Level


class ExchangeSearch:
    """Wirings tried for one all-to-all on one ring."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def run(self) -> tuple[Wiring, Plan]:
        """The best wiring found, and its plan."""
        ranks = self._exchange.ranks
        wiring = Wiring(ranks, (Level(ranks, 1, self._exchange.channels),), None)
        return wiring, plan(wiring, self._exchange, 1)
