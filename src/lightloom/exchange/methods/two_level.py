"""Float32 inside a node, where links are fast, and another method between nodes.

    inside   reduce-scatter: rank s of a node has the node's sum of slot s
    between  the method, among the ranks of slot s of all nodes
    inside   all-gather of the averages

Each rank sends 1 / node of the gradient between nodes. Source: ZeRO++ (Wang et al., 2023), section 3.3, for the order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lightloom.core.errors import ConfigError
from lightloom.exchange.family import Family, Find
from lightloom.exchange.method import ExchangeMethod, Gradient, Phase, Work
from lightloom.exchange.methods.composed import inner_reader, written
from lightloom.exchange.methods.low_rank import PowerSgdExchange
from lightloom.exchange.spelling import read, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevelExchange(ExchangeMethod):
    """Reduce-scatter and all-gather in a node around a method between nodes."""

    between: ExchangeMethod
    """What averages the slots of nodes."""
    node: int
    """Ranks of a node."""

    @property
    def name(self) -> str:
        return f"two-level:inside=float32,between={written(self.between)},node={self.node}"

    @property
    def scale_free(self) -> bool:
        return self.between.scale_free

    @property
    def needs_values(self) -> bool:
        return self.between.needs_values

    @property
    def coding(self) -> ExchangeMethod:
        return self.between.coding

    @property
    def state_values(self) -> float:
        return self.between.state_values / self.node

    def ranks_of(self, phase: Phase, ranks: int) -> int:
        return self.node if phase.where == "in a node" else self._nodes(ranks)

    def slot(self, gradient: Gradient) -> Gradient:
        """What a rank exchanges between nodes: its share of all tensors, one after the other."""
        return replace(gradient, shapes=((-(-gradient.values // self.node),),))

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Collectives in order.

        Raises:
            ConfigError: the ranks do not fill nodes.
        """
        nodes, nbytes = self._nodes(ranks), 4.0 * self.slot(gradient).values * self.node
        between = self.between.phases(self.slot(gradient), nodes) if nodes > 1 else ()
        return (
            Phase(kind="reduce-scatter", nbytes=nbytes, where="in a node"),
            *(replace(phase, where="between nodes") for phase in between),
            Phase(kind="all-gather", nbytes=nbytes, where="in a node"),
        )

    def work(self, gradient: Gradient, ranks: int) -> Work:
        nodes = self._nodes(ranks)
        return self.between.work(self.slot(gradient), nodes) if nodes > 1 else Work()

    def _nodes(self, ranks: int) -> int:
        if ranks % self.node:
            raise ConfigError(f"exchange {self.name!r}: {ranks} ranks: expected a multiple of node={self.node}")
        return ranks // self.node


def _read_inside(text: str) -> str:
    if text != "float32":
        raise ValueError("expected float32: links inside a node are faster than codecs")
    return text


def _between_reader(find: Find) -> Find:
    read_inner = inner_reader(find)

    def read_between(text: str) -> ExchangeMethod:
        method = read_inner(text)
        if isinstance(method, TwoLevelExchange):
            raise ValueError("expected a method of one level")
        if isinstance(method, PowerSgdExchange):
            raise ValueError("expected a method that needs no matrices: a slot cuts tensors anywhere")
        return method

    return read_between


def _build(text: str, options: dict[str, str], find: Find) -> TwoLevelExchange:
    readers = {"inside": _read_inside, "between": _between_reader(find), "node": whole(2, 4096)}
    values = read(text, options, readers)
    return TwoLevelExchange(between=values.get("between") or find("int4"), node=values.get("node", 8))


FAMILIES = (
    Family(
        name="two-level",
        compared=(),
        summary="float32 inside a node, another method between nodes",
        options=(
            ("inside", "float32, what ranks of a node exchange"),
            ("between", "method between nodes, in parentheses; int4 by default"),
            ("node", "ranks of a node; 8 by default"),
        ),
        build=_build,
    ),
)
