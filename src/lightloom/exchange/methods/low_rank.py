"""PowerSGD: each gradient matrix M [rows, columns] as P Qᵀ of low rank, P and Q being averaged over ranks.

    P = mean of M Q  ->  orthogonalise P  ->  Q = mean of Mᵀ P  ->  M ≈ P Qᵀ

Q is kept as the start of the next step. Tensors of one dimension, and those whose factors would not be smaller, go as
float32. Source: Vogels, Karimireddy and Jaggi, PowerSGD (NeurIPS 2019), Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lightloom.exchange.family import Family, Find
from lightloom.exchange.method import ExchangeMethod, Gradient, Phase, Work
from lightloom.exchange.spelling import flag, read, whole

_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSgdExchange(ExchangeMethod):
    """All-reduces of the factors of each matrix."""

    rank: int
    """Columns of each factor."""

    @property
    def name(self) -> str:
        return f"powersgd:rank={self.rank},{'feedback' if self.feedback else 'feedback=no'}"

    @property
    def scale_free(self) -> bool:
        """Not promised: it would take an orthogonalisation whose rounding does not depend on the scale."""
        return False

    def factors(self, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
        """(rows, columns, rank) of the factors of a tensor, all dimensions but the first being its columns; None for a
        tensor that goes as float32."""
        if len(shape) < 2:
            return None
        rows, columns = shape[0], prod(shape[1:])
        rank = min(self.rank, rows, columns)
        return (rows, columns, rank) if (rows + columns) * rank < rows * columns else None

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        matrices = self._matrices(gradient)
        plain = sum(prod(shape) for shape in gradient.shapes if self.factors(shape) is None)
        sizes = (
            plain,
            sum(rows * rank for rows, _, rank in matrices),
            sum(columns * rank for _, columns, rank in matrices),
        )
        return tuple(Phase(kind="all-reduce", nbytes=float(_BYTES * size)) for size in sizes if size)

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """M Q, Mᵀ P and P Qᵀ, each of which reads or writes M once, and Gram-Schmidt of the columns of P."""
        matrices = self._matrices(gradient)
        values = sum(rows * columns for rows, columns, _ in matrices)
        flops = sum(6 * rows * columns * rank + 2 * rows * rank * rank for rows, columns, rank in matrices)
        return Work(
            encoded_values=2 * values,
            decoded_values=values,
            calls=3 * len(matrices),
            flops=float(flops),
        )

    def _matrices(self, gradient: Gradient) -> list[tuple[int, int, int]]:
        return [factors for shape in gradient.shapes if (factors := self.factors(shape)) is not None]


def _build(text: str, options: dict[str, str], _find: Find) -> PowerSgdExchange:
    values = read(text, options, {"rank": whole(1, 1024), "feedback": flag})
    return PowerSgdExchange(**{"rank": 2, "feedback": True} | values)


FAMILIES = (
    Family(
        name="powersgd",
        summary="each gradient matrix as a product of two narrow ones, which are averaged",
        options=(
            ("rank", "columns of the narrow matrices, from 1 to 1024; 2 by default"),
            ("feedback", "add what the product leaves out to the next gradient, on by default"),
        ),
        build=_build,
    ),
)
