"""LocalSGD and DiLoCo: ranks train alone and agree on weights every so many steps.

    outer = exchange.periodic(model, optimizer, "diloco:every=50,inner=(int4:block=128,feedback)")
    for batch in data:
        loss(model, batch).backward()
        optimizer.step()
        outer.step()                    # or hook=True above, and no such line
        optimizer.zero_grad()

    DiLoCo   pseudo-gradient = weights of the last exchange - weights now, averaged over ranks by the inner method
             weights = weights of the last exchange, moved by SGD with Nesterov momentum along the pseudo-gradient
    LocalSGD weights = mean over ranks of the weights

The model is not wrapped in DDP, which would average every gradient. Buffers, such as the running means of a batch norm,
and the optimizer's own state stay each rank's. A rank resumes from its own checkpoint of the model, the optimizer and
this object.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.distributed.exchanger import Stepwise
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry, SavedState, StateDict, check_names, check_values
from lightloom.exchange.method import ExchangeMethod, Gradient
from lightloom.exchange.methods import DiLoCoExchange, LocalSgdExchange, PlainExchange, method_of
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.exchange.transport.gloo import group_or_default

_STEP = "step"
_INNER = "inner/"


class Periodic(Stepwise, ABC):
    """Exchanger of a model's weights every so many steps; a ``Stateful`` for checkpoints of one rank.

    In its statistics each exchange counts as a step, steps between them do not.
    """

    def __init__(self, model: nn.Module, inner: ExchangeMethod, method: ExchangeMethod, own: OwnGroup) -> None:
        """Keep the model's trainable weights and connect the ranks; ``periodic`` has checked the arguments and given
        all ranks the weights of rank 0."""
        self.method = method
        named = [(name, parameter.detach()) for name, parameter in model.named_parameters() if parameter.requires_grad]
        self.parameters = {name: torch.view_as_real(p) if p.is_complex() else p for name, p in named}
        """Trainable weights by name, not copied, complex ones as pairs of real ones."""
        self.steps = 0
        """Number of optimizer steps counted so far."""
        sizes = {name: values.numel() for name, values in self.parameters.items()}
        super().__init__(exchanger(inner, own, sizes), prefix=_INNER)
        self._exchanger.remark = f" in {method}"

    def step(self) -> bool:
        """Count a step of the optimizer and exchange what is due; return True if something was exchanged.

        All ranks call it equally often, those whose ``GradScaler`` skipped a step too.

        Raises:
            TransportError: a rank left or fell silent.
        """
        self.steps += 1
        due = self._due()
        for names in due:
            with torch.no_grad():
                self._exchange(names)
        return bool(due)

    def _average(self, values: Tensor, geometry: Geometry) -> None:
        """Replace flat values, which hold the tensors of ``geometry``, by their mean over ranks by the inner method, in
        place, and count the exchange as a step of the statistics."""
        with self._counted(geometry, last=True):
            self._exchanger.average(values, geometry)

    def state_dict(self) -> StateDict:
        """Return the number of steps under ``step`` and the state of the inner method under ``inner/...``."""
        return {_STEP: self.steps} | super().state_dict()

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank, as ``state_dict`` returned it; those of the model and its optimizer
        are loaded apart.

        Raises:
            ConfigError: it is of another rank, number of ranks, model or method.
        """
        if _STEP not in state_dict:
            raise ConfigError(f"the checkpoint holds no {_STEP!r}: expected one of {self.method}")
        super().load_state_dict({key: value for key, value in state_dict.items() if key.startswith(_INNER)})
        self.steps = int(state_dict[_STEP])

    def _wide(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Return the weights of these names, each flat, by name, in float32, or in float64 where they have that type;
        complex ones as pairs of real ones. Those that need no conversion share memory with the model."""
        flat = {name: self.parameters[name].reshape(-1) for name in names}
        return {name: values if values.dtype == torch.float64 else values.float() for name, values in flat.items()}

    def _split(self, flat: Tensor, names: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, values) of each of these tensors from a flat buffer in which they follow each other in this
        order; the values are flat views."""
        return zip(names, torch.split(flat, [self.parameters[name].numel() for name in names]), strict=True)

    @abstractmethod
    def _due(self) -> list[list[str]]:
        """Return the exchanges that are due after this step, each as the names of its tensors; empty where none is."""

    @abstractmethod
    def _exchange(self, names: list[str]) -> None:
        """Let the ranks agree on the weights of these tensors, and set the model's weights in place; all ranks call
        it."""


class LocalSgd(Periodic):
    """Averages weights every so many steps."""

    def __init__(self, model: nn.Module, method: LocalSgdExchange, own: OwnGroup) -> None:
        """Keep the model's trainable weights, connect the ranks, and group the weights by the type in which they are
        averaged."""
        super().__init__(model, PlainExchange(), method, own)
        self._every = method.every
        self._groups: dict[torch.dtype, list[str]] = {}
        for name, values in self._wide(self.parameters).items():
            self._groups.setdefault(values.dtype, []).append(name)

    def _due(self) -> list[list[str]]:
        """Return the names of all trainable tensors, a list for each type in which they are averaged (float64 for
        weights of that type, float32 for others), if the count of steps is a multiple of ``every``; else no list."""
        return [] if self.steps % self._every else list(self._groups.values())

    def _exchange(self, names: list[str]) -> None:
        """Replace the weights of these tensors by their mean over ranks, in place in the model. They are averaged
        together in one type, float32 or float64, and rounded back to their own."""
        flat = torch.cat([*self._wide(names).values()])
        self._average(flat, Geometry.joined([("weights", tuple(flat.shape))]))
        for name, mean in self._split(flat, names):
            self.parameters[name].copy_(mean.view(self.parameters[name].shape))


class DiLoCo(Periodic):
    """Averages what weights moved by, and moves those of the last exchange by it."""

    def __init__(self, model: nn.Module, method: DiLoCoExchange, own: OwnGroup) -> None:
        """Keep a copy of the weights as those of the last exchange, with an outer momentum of 0, and divide the tensors
        into fragments."""
        super().__init__(model, method.inner, method, own)
        self._outer = method
        self.backup = {name: values.clone() for name, values in self._wide(self.parameters).items()}
        """Weights of the last exchange, float32 or wider."""
        self.momentum = {name: torch.zeros_like(values) for name, values in self.backup.items()}
        """Momentum of the outer optimizer."""
        left, shapes = iter(self.parameters), {name: tuple(values.shape) for name, values in self.parameters.items()}
        parts = method.parts(Gradient(tuple(shapes.values())))
        self.fragments = [[next(left) for _ in part.shapes] for part in parts]
        """Names of the tensors that are exchanged together."""
        self._geometries = [Geometry.joined([(name, shapes[name]) for name in names]) for names in self.fragments]

    def state_dict(self) -> StateDict:
        """Return a checkpoint of this rank: steps under ``step``, weights of the last exchange under ``backup/<name>``,
        outer momentum under ``momentum/<name>`` (copies in CPU memory), and the state of the inner method under
        ``inner/...``."""
        kept = {f"backup/{name}": values for name, values in self.backup.items()}
        kept |= {f"momentum/{name}": values for name, values in self.momentum.items()}
        return super().state_dict() | {key: values.cpu().clone() for key, values in kept.items()}

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank, as ``state_dict`` returned it; the model's weights are not set.
        Raises ConfigError where tensors, sizes, rank or method differ."""
        for kind, tensors in (("backup", self.backup), ("momentum", self.momentum)):
            names = {key.removeprefix(f"{kind}/") for key in state_dict if key.startswith(f"{kind}/")}
            check_names(names, set(tensors))
            for name, values in tensors.items():
                loaded = torch.as_tensor(state_dict[f"{kind}/{name}"])
                check_values(f"{kind}/{name}", loaded.numel(), values.numel())
                values.copy_(loaded.view(values.shape))
        super().load_state_dict(state_dict)

    def _due(self) -> list[list[str]]:
        """Return the fragments whose turn is after this step, each as the names of its tensors: of n fragments number
        k, from 0, is due after step every (k + 1) / n, rounded down, of each round of ``every`` steps."""
        now = (self.steps - 1) % self._outer.every + 1
        return [names for k, names in enumerate(self.fragments) if self._outer.turn(k) == now]

    def _exchange(self, names: list[str]) -> None:
        """Average over ranks what a fragment's weights moved by since its last exchange, let the outer optimizer (SGD
        with Nesterov momentum) move the weights of that exchange by it, and make the result the model's weights, in
        place.

        With g the mean of (weights of the last exchange - weights now), m = momentum m + g, and the weights of that
        exchange change by -rate (g + momentum m). ``names`` are those of the whole fragment.
        """
        weights = self._wide(names)
        moved = torch.cat([(self.backup[name] - weights[name]).float() for name in names])
        self._average(moved, self._geometries[self.fragments.index(names)])
        factor, rate = self._outer.outer_momentum, self._outer.outer_lr
        for name, gradient in self._split(moved, names):
            backup, momentum = self.backup[name], self.momentum[name]
            if factor:
                gradient = gradient + factor * momentum.mul_(factor).add_(gradient)
            backup.sub_(gradient, alpha=rate)
            self.parameters[name].copy_(backup.view(self.parameters[name].shape))


def periodic(
    model: nn.Module,
    optimizer: Optimizer,
    method: ExchangeMethod | str,
    *,
    group: dist.ProcessGroup | None = None,
    hook: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
) -> Periodic:
    """Return an object that exchanges the weights of a model every so many steps, counted by its ``step``, which the
    caller calls after each step of the optimizer unless ``hook`` does; all ranks call this, in the same order.

    Rank 0's weights and buffers become all ranks': create this before a checkpoint is loaded. Later only trainable
    weights are exchanged; buffers and the optimizer's state stay each rank's.

    Args:
        model: trained by each rank alone, not wrapped in DDP or FSDP.
        optimizer: the model's (inner) optimizer, used only with ``hook``.
        method: ``localsgd`` or ``diloco`` with their options, or such a method.
        group: process group; the default group unless given.
        hook: call ``step`` after each of the optimizer's steps. Not with a ``GradScaler``, which skips steps on some
            ranks only: call ``step`` yourself there.
        timeout: time without progress after which an exchange fails, in seconds; 300 by default.

    Raises:
        ConfigError, UnknownNameError: the method's name cannot be read, or the number of ranks is no multiple of the
            ranks a node of its inner method (methods of two levels).
        UnsupportedError: the method averages gradients, the model is wrapped in DDP, a weight or buffer is no plain
            dense tensor (as under FSDP2), or there is no process group.
        TransportError: a rank did not connect in time.
    """
    chosen = method_of(method)
    if isinstance(model, DistributedDataParallel):
        raise UnsupportedError(
            f"exchange {chosen} lets ranks train alone, and DistributedDataParallel averages their gradients at every "
            "step: expected the module itself"
        )
    group = group_or_default(group)
    tensors = [*model.parameters(), *model.buffers()]
    for tensor in tensors:
        if tensor.layout != torch.strided or type(tensor.data) is not Tensor:
            raise UnsupportedError(f"exchange {chosen} works on plain dense weights, not {type(tensor.data).__name__}")
    with torch.no_grad():
        for tensor in tensors:
            dist.broadcast(tensor.detach(), group=group, group_src=0)
    device = tensors[0].device.type if tensors else "cpu"
    own = OwnGroup(group, timeout, device=device)
    outer: Periodic
    if isinstance(chosen, LocalSgdExchange):
        outer = LocalSgd(model, chosen, own)
    elif isinstance(chosen, DiLoCoExchange):
        outer = DiLoCo(model, chosen, own)
    else:
        raise UnsupportedError(f"exchange {chosen} averages gradients at every step: expected localsgd or diloco")
    if hook:

        def after_step(*_: object) -> None:
            """Count a step of the optimizer and exchange what is due."""
            outer.step()

        optimizer.register_step_post_hook(after_step)
    return outer
