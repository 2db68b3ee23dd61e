"""What hooks keep beside an exchanger: whether to step aside for the plain exchange, the loss scale, statistics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from lightloom.training.gradients.adaptive import AdaptiveCompression, divided, joined
from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.group import raw_nbytes
from lightloom.training.gradients.state_dict import SavedState, StateDict
from lightloom.training.gradients.statistics import Statistics
from lightloom.training.transport.payload import Traffic


class Stepwise:
    """An exchanger in a training run; a ``Stateful`` whose checkpoint is the method's state and the last decision."""

    def __init__(
        self,
        exchanger: Exchanger,
        group: dist.ProcessGroup,
        *,
        adaptive: bool,
        loss_scale: Callable[[], float] | None,
        plain_name: str = "plain all-reduce",
        statistics: Statistics | None = None,
    ) -> None:
        """Begin to count.

        Args:
            exchanger: what to run.
            group: process group over which ranks agree whether to step aside.
            adaptive: use the plain exchange while it is faster.
            loss_scale: ``scaler.get_scale`` of a ``GradScaler``; None for 1.
            plain_name: what the plain exchange is called in messages.
            statistics: where to count; new ones unless given.
        """
        self.exchanger = exchanger
        self.statistics = Statistics() if statistics is None else statistics
        self._group = group
        self._loss_scale = loss_scale
        self.adaptive: AdaptiveCompression | None = None
        if adaptive and group.size() > 1 and not exchanger.any_type:
            exchanger.remark = ", stepping aside where plain is faster"
            self.adaptive = AdaptiveCompression(self._mean_over_ranks, log=group.rank() == 0, plain_name=plain_name)
            self.statistics.decisions = self.adaptive.decisions

    @property
    def use_plain(self) -> bool:
        """Whether the present step uses the plain exchange."""
        return self.adaptive is not None and self.adaptive.use_plain

    @property
    def scale(self) -> float:
        """What gradients are divided by for the exchange."""
        return 1.0 if self._loss_scale is None else float(self._loss_scale())

    @contextmanager
    def counted(self, values: int, *, last: bool, halves: int = 2) -> Iterator[None]:
        """Count the exchange in the body; ``last`` ends the step.

        Args:
            values: values of the buffer.
            last: whether it is the last one of the step.
            halves: 2 for an all-reduce, 1 for a reduce-scatter.
        """
        began, sent = time.perf_counter(), self.exchanger.group.sent
        yield
        raw = raw_nbytes(values, self.exchanger.group.ranks) * halves // 2
        traffic = Traffic(raw, self.exchanger.group.sent - sent)
        self.statistics.add_exchange(traffic, time.perf_counter() - began, last=last)

    def give_back(self, values: Tensor, geometry: Geometry) -> None:
        """Add residuals to gradients, real and flat, that are averaged without the method, so that none is lost."""
        residual = self.exchanger.drain(geometry, values.device)
        if residual is not None:
            values += residual.mul_(self.scale).to(values.dtype)

    def end_step(self, arrived: float) -> None:
        """Choose the kind of the next step; ``arrived`` is when the last gradients of this one came, in seconds."""
        if self.adaptive is not None:
            self.adaptive.end_step(arrived)

    def close(self) -> None:
        """Leave the group. May be called any number of times."""
        self.exchanger.close()

    def state_dict(self) -> StateDict:
        """Return the state of the method on this rank, and of the adaptive choice."""
        return joined(self.exchanger.state_dict(), self.adaptive)

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: it is of another rank, number of ranks, model or method.
        """
        self.exchanger.load_state_dict(divided(state_dict, self.adaptive))

    def _mean_over_ranks(self, numbers: list[float]) -> list[float]:
        device = "cpu" if self.exchanger.group.device == "cpu" else self.exchanger.group.device
        values = torch.tensor(numbers, dtype=torch.float64, device=device) / self._group.size()
        dist.all_reduce(values, group=self._group)
        return values.tolist()
