"""Parameters of the kernel model, fitted to the operators of a profile.

Only parameters that the time of single kernels determines are fitted: the rates of products, of attention and of the
memory. How much fusion saves, how fast the host launches and what links reach are those of whole steps, and stay at
their priors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from operator import attrgetter
from typing import Literal, NamedTuple, get_args

import numpy as np

from lightloom.collectives.collective import KINDS, Kind
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.results import in_groups
from lightloom.machines.accelerators.accelerator import ELEMENT_BYTES, PRECISIONS, Accelerator, Precision
from lightloom.machines.accelerators.calibrated import Calibration, CalibrationRows
from lightloom.machines.accelerators.kernels import KernelKind, KernelModel, KernelShapes, Rates
from lightloom.machines.clusters.cluster import Cluster
from lightloom.models.operator_words import convolved_shape
from lightloom.models.traces.calls import BACKWARD, Call, exchange_of_call, leaves, walk
from lightloom.models.traces.kineto import Busy, DeviceWork, Profile, busy
from lightloom.models.traces.operators import TracedExchange
from lightloom.planning.calibration.accuracy import calibration_of
from lightloom.planning.calibration.fit import LEAST_NOISE, error_statistics, prior_fit, random_folds, scatter_of
from lightloom.planning.calibration.rows import kernel_model, kernels_with, priors_of
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices
from lightloom.planning.pricing.job import half_widths

# The kernels of a profiled operator, from its name, the shapes of its inputs and its values.
#
# products     mm, bmm, addmm, baddbmm, convolutions; the gradients of convolutions
# attention    each of PyTorch's fused forms, forward and backward
# memory       operators whose traffic the shapes tell: element-wise, normalisation, softmax, dropout, copies

_CAUSAL: Mapping[str, tuple[int, int]] = {
    "_scaled_dot_product_flash_attention": (0, 4),
    "_scaled_dot_product_flash_attention_for_cpu": (0, 4),
    "_scaled_dot_product_efficient_attention": (0, 6),
    "_scaled_dot_product_cudnn_attention": (0, 6),
    "_scaled_dot_product_flash_attention_backward": (1, 11),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (1, 7),
    "_scaled_dot_product_efficient_attention_backward": (1, 11),
    "_scaled_dot_product_cudnn_attention_backward": (1, 14),
}
"""Places of the queries among the tensors, and of ``is_causal`` among the arguments. Source: PyTorch 2.13,
native_functions.yaml."""
_WORDS = """
    add sub mul div neg exp pow sqrt rsqrt abs tanh sigmoid relu gelu silu leaky_relu clamp_min where masked_fill
    threshold_backward gelu_backward silu_backward sigmoid_backward tanh_backward addcmul addcdiv clone
    _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data native_dropout native_dropout_backward
    native_layer_norm native_layer_norm_backward _fused_rms_norm native_batch_norm cudnn_batch_norm
"""
_READ_AND_WRITTEN = frozenset(_WORDS.split())
"""Operators that read their inputs once and write one tensor of the largest shape; in place likewise."""


class ProfiledKernel(NamedTuple):
    """Kernel that one profiled call launches, with its shapes."""

    kind: KernelKind
    m: int = 0
    n: int = 0
    k: int = 0
    products: int = 0
    repeats: int = 1
    forward: int = 0
    input_gradient: int = 0
    weight_gradient: int = 0
    causal: int = 0
    nbytes: int = 0
    """Traffic of a call that waits for memory, in bytes."""


def kernel_of(call: Call) -> ProfiledKernel | None:
    """Return the kernel that a profiled call launches: a matrix product or attention, with its shape (``m``, ``n``,
    ``k``, the number of ``products``) and the passes that it computes, or memory traffic with its ``nbytes``; None
    where the call's name is none of these, or its shapes and values were not recorded well enough."""
    try:
        return _product_kernel(call) or _attention_kernel(call) or _memory_kernel(call)
    except (IndexError, TypeError, ZeroDivisionError, ValueError):
        return None


def _product_kernel(call: Call) -> ProfiledKernel | None:
    """Return the kernel of a matrix product (``mm``, ``bmm``, ``addmm`` or ``baddbmm``) or of a convolution, forward or
    backward; None for other calls, and for a convolution's backward call that does not record which gradients are
    wanted. A product of m rows, n columns and k summands is a forward one; where its left factor is transposed, it is
    the gradient of a layer's weights, and m, n and k are tokens, outputs and inputs, as in the layer's forward product.
    The passes of the kernel (``forward``, ``input_gradient``, ``weight_gradient``) are 1 where the call computes them,
    else 0; a convolution's backward call has m, n and k of the forward one.

    Raises:
        ValueError: a transposed convolution, or one whose values were not recorded; calls with fewer shapes than they
            read raise other errors, which :func:`kernel_of` turns into None too.
    """
    shapes = [tensor.shape for tensor in call.reads]
    word = call.word
    if word in ("mm", "bmm", "addmm", "baddbmm"):
        left, right = shapes[-2:]
        m, n, k, transposed = left[-2], right[-1], left[-1], call.reads[-2].transposed
        if transposed:  # The gradient of a layer's weights: the sum runs over the tokens, and rows hold features.
            m, n, k = left[-1], left[-2], right[-1]
        passes = {"weight_gradient" if transposed else "forward": 1}
        return ProfiledKernel(KernelKind.PRODUCT, m=m, n=n, k=k, products=prod(left[:-2]), **passes)
    if word == "convolution":
        return _convolution(call, shapes[0], shapes[1], 3)
    if word == "convolution_backward":
        # Before the stride stand the output's gradient, input, weight and the sizes of the bias.
        wanted = call.values[-1]
        forward = _convolution(call, shapes[1], shapes[2], 4)
        if not isinstance(wanted, list):
            return None
        return forward._replace(forward=0, input_gradient=int(bool(wanted[0])), weight_gradient=int(bool(wanted[1])))
    return None


def _convolution(call: Call, data: tuple[int, ...], weight: tuple[int, ...], first: int) -> ProfiledKernel:
    """Return the implicit matrix product of a forward convolution: m samples times output positions, n output channels
    and k input channels times kernel positions, of one group each, as many products as groups, and ``repeats`` the
    kernel positions.

    Args:
        call: whose arguments hold stride, padding, dilation, transposed, output padding and groups, in this order.
        data: shape of the input: samples, channels, positions along each axis.
        weight: shape of the weight: output channels, input channels of one group, kernel along each axis.
        first: position of the stride among the call's arguments.

    Raises:
        ValueError: a transposed convolution, or one whose values were not recorded.
    """
    *spans, transposed, _, groups = call.values[first : first + 6]
    outputs, positions = convolved_shape(data, weight, spans), prod(weight[2:])
    if outputs is None or transposed is not False or not isinstance(groups, int):
        raise ValueError("a transposed convolution, or one whose values were not recorded")
    m, n, k = data[0] * prod(outputs[2:]), weight[0] // groups, weight[1] * positions
    return ProfiledKernel(KernelKind.PRODUCT, m, n, k, products=groups, repeats=positions, forward=1)


def _attention_kernel(call: Call) -> ProfiledKernel | None:
    """Return the kernel of one of PyTorch's fused attention calls, forward or backward (both gradients); None for other
    calls. The passes are ``forward`` 1, or ``input_gradient`` and ``weight_gradient`` 1 each for a backward call. m is
    the number of queries, n of keys, k the size of a head, products those over samples and heads, and ``causal`` 1 or
    0. IndexError for a call that records fewer inputs or values than are read, which :func:`kernel_of` turns into
    None."""
    if call.word not in _CAUSAL:
        return None
    first, place = _CAUSAL[call.word]
    queries, keys = (call.reads[first + offset].shape for offset in (0, 1))
    m, n, k, causal = queries[-2], keys[-2], queries[-1], int(call.values[place] is True)
    passes = {"input_gradient": 1, "weight_gradient": 1} if first == 1 else {"forward": 1}
    return ProfiledKernel(KernelKind.FLASH, m, n, k, products=prod(queries[:-2]), causal=causal, **passes)


def _memory_kernel(call: Call) -> ProfiledKernel | None:
    """Return the kernel of a call that only moves bytes, with its traffic in bytes: of a fill its tensor, of a copy
    both tensors, of elementwise operators, normalisations and the like all that they read and one tensor as large as
    the largest of these; None where the call reads no tensor or its name does not tell the traffic."""
    word = call.word.removesuffix("_")
    sizes = [tensor.elements * tensor.element_bytes for tensor in call.reads]
    if not sizes:
        return None
    if word in ("fill", "zero"):
        return ProfiledKernel(KernelKind.MEMORY, nbytes=sizes[0])
    if word == "copy":
        return ProfiledKernel(KernelKind.MEMORY, nbytes=sizes[0] + sizes[1])
    if word in _READ_AND_WRITTEN or call.word in _READ_AND_WRITTEN:
        return ProfiledKernel(KernelKind.MEMORY, nbytes=sum(sizes) + max(sizes))
    return None


# Operators of a profiled step: how often each is called, how long a call took, and what the kernel model predicts.
#
# On a GPU the time of an operator is that of the work which it launched, inner calls of products and of attention
# included. In a profile of the host alone it is the time on the host, without that of inner calls which are operators
# of their own.

Pass = Literal["forward", "backward", "update"]
TIMED_FROM = 20e-6
"""Seconds of a call from which its kernels, not their launch and their tail, decide its time: an assumption."""


class OperatorKey(NamedTuple):
    """Key by which profiled calls are grouped into one operator."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the tensors that it reads."""
    precision: str
    """Number format; empty where no tensor has one."""
    step_pass: Pass


@dataclass(slots=True)
class ProfiledOperator:
    """Calls of one operator with inputs of the same shapes, in one kind of pass."""

    key: OperatorKey
    kernel: ProfiledKernel | None
    calls: int = 0
    seconds: float = 0.0
    """Seconds of all calls together."""
    kernels: dict[str, None] = field(default_factory=dict)
    """Names of the GPU's kernels, each once."""

    @property
    def mean_seconds(self) -> float:
        """Mean seconds of one call, over all calls."""
        return self.seconds / self.calls

    @property
    def rate(self) -> Precision | None:
        """Number format whose rate the arithmetic has: TF32 where names of kernels of float32 tensors say so, else the
        tensors' own; None where accelerators have no rate for it."""
        if self.key.precision == "fp32" and any("tf32" in name or "s1688" in name for name in self.kernels):
            return "tf32"
        return self.key.precision if self.key.precision in PRECISIONS else None


def operators_of(profile: Profile) -> list[ProfiledOperator]:
    """Return the operators of a profile that took time, those whose calls took longest together first. Calls of the
    same name, shapes read, number format and pass are one operator; a call counts as forward, backward or update by the
    calls around it. Seconds are those of the GPU's work where the profile holds any, else those on the host; inner
    calls count by themselves, but as part of a product or of attention. An operator's kernel is that of its first call,
    None where none is known (:func:`kernel_of`)."""
    operators: dict[OperatorKey, ProfiledOperator] = {}
    for call, step_pass, seconds in _timed_calls(profile.calls, "forward", profile.on_device):
        key = OperatorKey(call.name, tuple(tensor.shape for tensor in call.reads), call.precision, step_pass)
        operator = operators.setdefault(key, ProfiledOperator(key, kernel_of(call)))
        operator.calls += 1
        operator.seconds += seconds
        operator.kernels |= dict.fromkeys(name for inner in walk([call]) for name in inner.kernels)
    return sorted(operators.values(), key=lambda operator: -operator.seconds)


def _timed_calls(calls: Sequence[Call], step_pass: Pass, on_device: bool) -> Iterator[tuple[Call, Pass, float]]:
    """Yield (call, pass, seconds) for each call of an operator (one that has a schema) that took time itself, without
    its inner calls, and then for the calls inside it; a product or attention is yielded with the time of its inner
    calls, which are part of its kernel and not yielded. Calls without a schema are passed through.

    Args:
        calls: outermost calls.
        step_pass: pass that they are in where their names do not say another; what is inside of a call is in the pass
            of that call.
        on_device: take the seconds of the GPU's work; otherwise those on the host.
    """
    for call in calls:
        inside: Pass = (
            "backward" if call.name.startswith(BACKWARD) else "update" if "Optimizer." in call.name else step_pass
        )
        # Calls inside of products and of attention are parts of them.
        kernel = kernel_of(call)
        whole = call.schema and kernel is not None and kernel.kind is not KernelKind.MEMORY
        seconds = _device_seconds(call, whole) if on_device else call.seconds if whole else call.own_seconds
        if call.schema and seconds > 0:
            yield call, inside, seconds
        if not whole:
            yield from _timed_calls(call.calls, inside, on_device)


def _device_seconds(call: Call, whole: bool | str) -> float:
    """Return the seconds of the GPU's work that a call launched itself, and where ``whole`` is true (not False and not
    an empty text) those of all calls inside it, at any depth, too."""
    return call.device_seconds + (sum(_device_seconds(entry, True) for entry in call.calls) if whole else 0.0)


def predicted_seconds(
    operators: Sequence[ProfiledOperator], accelerator: Accelerator, kernels: KernelModel | None = None
) -> Floats:
    """Return the seconds that one call of each operator takes by the kernel model: [operators]; NaN where it has no
    price: no kernel is known, or the accelerator states no rate for its number format.

    Element-wise operators are priced as they were called, one by one: nothing is fused.

    Args:
        operators: of a profile.
        accelerator: what they run on.
        kernels: kernel model to take, its ``fusion`` aside; None for the accelerator's own.

    Raises:
        UnsupportedError: ``kernels`` is None, and the accelerator has no kernel model.
    """
    model = (kernels or kernel_model(accelerator)).model_copy(update={"fusion": 1.0})
    seconds = np.full(len(operators), np.nan)
    priced: dict[Precision, dict[int, ProfiledKernel]] = {}
    for row, operator in enumerate(operators):
        if operator.kernel is not None and (rate := operator.rate) is not None and rate in accelerator.peak:
            priced.setdefault(rate, {})[row] = operator.kernel
    for precision, rows in priced.items():
        peak = Rates(accelerator.peak_rate(precision), accelerator.memory_bandwidth or np.inf)
        size = 1 if precision == "fp8" else ELEMENT_BYTES[precision]
        shapes, nbytes, flops = _kernel_columns(list(rows.values()), size)
        seconds[list(rows)] = model.operator_times(nbytes, flops, shapes, peak)[0]
    return seconds


def _kernel_columns(kernels: Sequence[ProfiledKernel], size: int) -> tuple[KernelShapes, Floats, Floats]:
    """Return the shapes of kernels on elements of ``size`` bytes, their bytes moved and their FLOPs, the latter two
    each [1, kernels].

    Bytes are those of attention's tensors (queries, keys, values and output, once for a forward and once for a backward
    call) and of memory traffic, 0 of products; FLOPs are 2 m n k times the products, those of one pass, whatever the
    passes and the mask.
    """
    table = np.array([kernel[1:] for kernel in kernels], np.float64).T[:, None, :]
    columns = dict(zip(ProfiledKernel._fields[1:], table, strict=True))
    visible, nbytes = np.where(columns.pop("causal")[0] == 1, 0.5, 1.0), columns.pop("nbytes")
    kind, none = np.array([kernel.kind for kernel in kernels], np.int64), np.zeros(len(kernels), np.int64)
    shapes = KernelShapes(kind=kind, **columns, visible=visible, narrow=none, losses=none, element_bytes=size)
    attention = size * shapes.products * (2 * shapes.m + 2 * shapes.n) * shapes.k
    moved = np.where(shapes.kind == KernelKind.FLASH, attention * (shapes.forward + shapes.input_gradient), nbytes)
    return shapes, moved, 2 * shapes.m * shapes.n * shapes.k * shapes.products


FITTED = ("gemm_fraction", "gemm_depth", "unaligned", "flash_forward", "flash_backward", "memory_fraction")
"""Parameters that operators determine."""
_FRACTIONS = frozenset(FITTED) - {"gemm_depth"}
LEAST_OPERATORS = 4
"""Operators from which an error can be cross-validated."""
_NOISE = 0.15
"""Standard deviation of the logarithm of one operator's time around the model: an assumption."""
_STEP = 1e-4
_MOST_REWEIGHTINGS = 12
_SETTLED = 0.02
"""Relative change of the noise that ends a fit."""


class _Rows:
    """Operators that a fit rests on, with predictions as a function of the fitted parameters."""

    def __init__(self, operators: Sequence[ProfiledOperator], accelerator: Accelerator) -> None:
        self.operators, self._accelerator = list(operators), accelerator
        self.measured = np.log([operator.mean_seconds for operator in operators])
        self.kinds = len({(operator.key.name, operator.key.step_pass) for operator in operators})

    def predicted(self, logarithms: Floats) -> Floats:
        """Return the natural logarithm of the predicted seconds of a call of each operator: [operators]; ``logarithms``
        are those of the six parameters that a profile determines, in the order of :data:`FITTED`; all others are the
        accelerator's own."""
        kernels = kernels_with(self._accelerator, dict(zip(FITTED, np.exp(logarithms).tolist(), strict=True)))
        return np.log(predicted_seconds(self.operators, self._accelerator, kernels))

    def slopes(self, logarithms: Floats) -> Floats:
        """Return the derivatives of :meth:`predicted` by each fitted parameter's logarithm at ``logarithms``, by
        backward differences: [operators, parameters]."""
        center = self.predicted(logarithms)
        # Backward differences: fractions may lie at their upper limit, 1.
        moved = (self.predicted(logarithms - _STEP * row) for row in np.eye(len(FITTED)))
        return np.stack([(center - values) / _STEP for values in moved], axis=1)

    def subset(self, keep: Mask) -> _Rows:
        """Return the rows of the operators for which ``keep`` [operators] is True."""
        return _Rows([operator for operator, kept in zip(self.operators, keep, strict=True) if kept], self._accelerator)


def usable_operators(operators: Sequence[ProfiledOperator], accelerator: Accelerator) -> list[ProfiledOperator]:
    """Return the operators that have a price by the accelerator's kernel model and whose mean call takes
    :data:`TIMED_FROM` (20 us) or more, in their order. UnsupportedError where the accelerator has no kernel model."""
    priced = zip(operators, np.isfinite(predicted_seconds(operators, accelerator)), strict=True)
    return [operator for operator, known in priced if known and operator.mean_seconds >= TIMED_FROM]


def calibrate_on_profile(profile: Profile, accelerator: Accelerator, name: str) -> Calibration:
    """Return a calibration of an accelerator in which the six parameters that operators determine are fitted to a
    profile of a GPU: those of products (``gemm_fraction``, ``gemm_depth``, ``unaligned``), of attention
    (``flash_forward``, ``flash_backward``) and of the memory (``memory_fraction``). The others stay at their priors.
    The errors are those on operators left out of the fit, in folds drawn at random with a fixed seed
    (:func:`random_folds`).

    Args:
        profile: what was profiled.
        accelerator: the accelerator that it ran on.
        name: the accelerator as the calibration names it.

    Raises:
        ConfigError: the profile holds no work of a GPU, or fewer than four operators that can be priced and take 20 us
            or more.
        UnsupportedError: the accelerator has no kernel model, or names no transport.
    """
    if not profile.on_device:
        raise ConfigError(
            f"{profile.name}: holds no GPU kernels, and times of the host say nothing about {name!r}: profile with "
            "ProfilerActivity.CUDA to calibrate"
        )
    rows = _Rows(usable_operators(operators_of(profile), accelerator), accelerator)
    if len(rows.operators) < LEAST_OPERATORS:
        raise ConfigError(
            f"{profile.name}: {len(rows.operators)} operators that take {TIMED_FROM * 1e6:g} us or more and that the "
            f"kernel model prices: expected at least {LEAST_OPERATORS} to calibrate on"
        )
    priors = priors_of(accelerator)
    indices = [priors.names.index(parameter) for parameter in FITTED]
    center, spread = priors.center[indices], priors.spread[indices]
    logarithms, covariance, noise = _fit_parameters(rows, center, spread, center)
    errors, inside = _held_out(rows, center, spread, logarithms, random_folds(len(rows.operators)))
    whole = replace(prior_fit(priors), noise=noise)
    whole.logarithms[indices] = logarithms
    whole.covariance[np.ix_(indices, indices)] = covariance
    fitted_to = CalibrationRows(table=profile.name, sha256=profile.sha256, count=len(rows.operators), kind="operators")
    return calibration_of(name, fitted_to, whole, priors, errors, error_statistics(np.expm1(errors), inside))


def _fit_parameters(rows: _Rows, center: Floats, spread: Floats, start: Floats) -> tuple[Floats, Floats, float]:
    """Return the most likely natural logarithms of the six :data:`FITTED` parameters (of products, attention and
    memory) [parameters], their covariance [parameters, parameters], and the noise, the standard deviation of the
    logarithm of an operator's time around the model.

    Errors that are far off weigh less, and in the covariance operators of one name and pass count together as one.
    Fractions (all parameters but ``gemm_depth``) stay at most 1, and the noise is at least 0.02.

    Args:
        rows: operators to fit to.
        center: logarithms of the priors: [parameters].
        spread: standard deviations of these logarithms: [parameters].
        start: logarithms at which to begin: [parameters].
    """
    from scipy.optimize import least_squares

    logarithms, noise = start, _NOISE
    highest = np.array([0.0 if name in _FRACTIONS else np.inf for name in FITTED])
    weights = np.ones(len(rows.measured))
    for _ in range(_MOST_REWEIGHTINGS):
        scale = np.sqrt(weights) / noise

        def residuals(point: Floats, scale: Floats = scale) -> Floats:
            """Return the weighted errors of all operators, then the parameters' distances from their priors, in
            standard deviations."""
            return np.concatenate([(rows.predicted(point) - rows.measured) * scale, (point - center) / spread])

        def slopes(point: Floats, scale: Floats = scale) -> Floats:
            """Return the derivatives of the residuals: [operators + parameters, parameters]."""
            return np.concatenate([rows.slopes(point) * scale[:, None], np.diag(1 / spread)])

        inside = np.minimum(logarithms, highest - 1e-9)
        solved = least_squares(residuals, inside, slopes, (-np.inf, highest), x_scale=spread, xtol=1e-5, max_nfev=30)
        logarithms = solved.x
        errors = rows.predicted(logarithms) - rows.measured
        before, noise = noise, max(float(np.median(np.abs(errors))) * 1.4826, LEAST_NOISE)
        weights = 1 / np.sqrt(1 + (errors / noise) ** 2 / 2)
        if abs(noise / before - 1) < _SETTLED:
            break
    # Operators of one name share what the model gets wrong about it, and count as one for what stays uncertain.
    share = rows.kinds / len(rows.operators)
    slope = rows.slopes(logarithms)
    information = slope.T @ (slope * (weights * share / noise**2)[:, None]) + np.diag(spread**-2.0)
    return logarithms, np.linalg.inv(information).astype(np.float64), noise


def _held_out(rows: _Rows, center: Floats, spread: Floats, start: Floats, fold: Ints) -> tuple[Floats, Mask]:
    """Return the errors of operators that a fit to the other folds had not seen (natural logarithm of predicted over
    measured), and whether each lies in its 90 % interval, of which the scatter of these errors is a part: each
    [operators].

    Args:
        rows: operators.
        center, spread: priors of the parameters' logarithms: [parameters].
        start: logarithms from which fits begin: [parameters].
        fold: number of each operator's fold, from 0: [operators].
    """
    errors, half = np.zeros(len(fold)), np.zeros(len(fold))
    for number in range(int(fold.max()) + 1):
        out = fold == number
        logarithms, covariance, _ = _fit_parameters(rows.subset(~out), center, spread, start)
        tested = rows.subset(out)
        errors[out] = tested.predicted(logarithms) - tested.measured
        half[out] = half_widths(tested.slopes(logarithms), covariance, 0.0)
    return errors, np.abs(errors) <= np.hypot(half, scatter_of(errors))


# A profiled step beside its prediction: computing, exchanges, idle time, and what makes the difference.
#
# part                       measured                          predicted
# computing                  time in which any kernel runs     the same, with each priced operator at its price
# exposed communication      exchanges beside no kernel        the same, as longer or shorter as the exchanges are
# idle                       neither                           as measured
#
# Overlap stays as it was: of an exchange that takes twice as long, twice as much is exposed.

COMMUNICATION = ("c10d::", "nccl:", "gloo:", "mpi:", "ucc:", "record_param_comms")
"""Beginnings of the names of calls that exchange data among ranks."""


class StepPart(NamedTuple):
    """One part of a step (computing, exposed communication or idle), measured and predicted, in seconds of one step."""

    name: str
    measured: float
    predicted: float
    note: str

    @property
    def difference(self) -> float:
        """Predicted less measured seconds; negative where the prediction is too fast."""
        return self.predicted - self.measured


class ExchangeRow(NamedTuple):
    """The exchanges of one kind, size and group in a step."""

    exchange: TracedExchange
    times: float
    """Exchanges of a step."""
    measured: float
    """Measured seconds of one exchange."""
    predicted: float | None
    """Predicted seconds of one exchange; None where it cannot be priced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledStep:
    """A step as it was measured and as it is predicted."""

    parts: tuple[StepPart, ...]
    operators: tuple[tuple[ProfiledOperator, float | None], ...]
    """Operators with the predicted seconds of one call, the longest first."""
    exchanges: tuple[ExchangeRow, ...]
    steps: int
    overlapped: float
    """Seconds of a step in which exchanges ran beside computing."""

    @property
    def measured(self) -> float:
        """Measured seconds of a step: the sum of its parts."""
        return sum(part.measured for part in self.parts)

    @property
    def predicted(self) -> float:
        """Predicted seconds of a step: the sum of its parts."""
        return sum(part.predicted for part in self.parts)


def profiled_step(profile: Profile, machine: Accelerator, cluster: Cluster | None) -> ProfiledStep:
    """Return a profiled step beside its prediction, in seconds of one step: its ``parts`` (computing, exposed
    communication, idle), measured and predicted; its ``operators`` (:func:`operators_of`), each with the predicted
    seconds of one call or None where it has no price; its ``exchanges`` (:func:`_exchange_rows`); the number of
    profiled ``steps``; and ``overlapped``, the measured seconds in which exchanges ran beside computing. Computing
    changes by the difference that priced operators make, exposed communication in the proportion of the exchanges'
    seconds, and idle time stays as measured.

    Args:
        profile: with or without marked steps; without marks the whole trace is one step.
        machine: accelerator that it ran on.
        cluster: whose fabric prices exchanges; None to take them as measured.

    Raises:
        UnsupportedError: the accelerator has no kernel model.
    """
    pieces = list(_pieces(profile))
    computing = [(piece.begin, piece.end) for piece in pieces if piece.exchange is None]
    exchanging = [(piece.begin, piece.end) for piece in pieces if piece.exchange is not None]
    spent = busy(computing, exchanging, _window(profile))
    operators = operators_of(profile)
    prices = predicted_seconds(operators, machine)
    known = ~np.isnan(prices)
    measured = np.array([operator.mean_seconds for operator in operators])
    calls = np.array([operator.calls for operator in operators])
    change = float(((prices - measured) * calls)[known].sum())
    rows = tuple(_exchange_rows([piece.exchange for piece in pieces if piece.exchange is not None], profile, cluster))
    share = float((measured * calls)[known].sum() / max(float((measured * calls).sum()), 1e-30))
    return ProfiledStep(
        parts=tuple(_step_parts(spent, change, share, rows, profile.steps, cluster)),
        operators=tuple(zip(operators, [None if np.isnan(price) else price for price in prices.tolist()], strict=True)),
        exchanges=rows,
        steps=profile.steps,
        overlapped=spent.overlapped / profile.steps,
    )


def _step_parts(
    spent: Busy, change: float, share: float, rows: Sequence[ExchangeRow], steps: int, cluster: Cluster | None
) -> Iterator[StepPart]:
    """Yield the parts "computing" (exchanging at the same time or not), "exposed communication" (nothing computes
    meanwhile) and "idle", measured and predicted in seconds of one step, each with a note on what is priced. Computing
    is predicted to differ by ``change``, at least 0 in all, exposed communication in the proportion of the predicted to
    the measured seconds of all exchanges (1 without any), in which exchanges without a price count as measured, and
    idle time not at all.

    Args:
        spent: measured seconds of all steps together.
        change: predicted less measured seconds of the priced operators in all steps.
        share: share of the operators' time that is priced, which the note of computing states.
        rows: exchanges of a step.
        steps: number of profiled steps.
        cluster: that priced the exchanges; None where they are taken as measured. Only the note depends on it.
    """
    note = f"{share:.0%} of the operators' time is priced, the rest as measured"
    yield StepPart("computing", spent.computing / steps, max(spent.computing + change, 0.0) / steps, note)
    lasted = sum(row.times * row.measured for row in rows)
    predicted = sum(row.times * (row.measured if row.predicted is None else row.predicted) for row in rows)
    ratio = predicted / lasted if lasted else 1.0
    priced = sum(row.predicted is not None for row in rows)
    note = f"{priced} of {len(rows)} kinds of exchanges are priced" if cluster else "as measured: no cluster is named"
    yield StepPart(
        "exposed communication", spent.exposed / steps, ratio * spent.exposed / steps, note if rows else "none"
    )
    yield StepPart("idle", spent.idle / steps, spent.idle / steps, "as measured")


def _window(profile: Profile) -> tuple[float, float]:
    """Return the begin and end of all profiled steps in seconds, those of the whole trace without marks. On a device,
    they last to the end of all its work in the trace, as far as that is later than the last mark, since what the last
    marked step launched belongs to it."""
    if profile.marks:
        last = [piece.end for piece in profile.work] if profile.on_device else []
        return profile.marks[0][0], max([profile.marks[-1][1], *last])
    spans = [(call.begin, call.end) for call in profile.calls] + [(piece.begin, piece.end) for piece in profile.work]
    return min(begin for begin, _ in spans), max(end for _, end in spans)


def _pieces(profile: Profile) -> Iterator[DeviceWork]:
    """Yield the pieces of work that compute or exchange: the accelerator's work where it was profiled, else the host's
    outermost operators, backward nodes and optimizer steps, and calls that exchange data among ranks. ``exchange`` of a
    piece is None where it computes."""
    if profile.on_device:
        yield from profile.work
        return
    for call in leaves(profile.roots):
        exchange = exchange_of_call(call, call.seconds) if call.name.startswith(COMMUNICATION) else None
        if call.schema or call.calls or exchange is not None:
            yield DeviceWork(call.name, call.begin, call.seconds, exchange)


def _exchange_rows(
    exchanges: Sequence[TracedExchange], profile: Profile, cluster: Cluster | None
) -> Iterator[ExchangeRow]:
    """Yield the exchanges of a step, those of one kind, size, group and number of ranks in one row with their number in
    a step (a mean over the steps, so no whole number perhaps) and the mean measured and the predicted seconds of one;
    the longest altogether first. Without a cluster, or where they have no price, the prediction is None. ``exchanges``
    are those of all steps of ``profile``."""
    groups = in_groups(exchanges, attrgetter("kind", "nbytes", "group", "ranks"))
    world = profile.distributed.get("world_size")
    price = None if cluster is None else exchange_pricer(cluster, world if type(world) is int else None)
    for members in sorted(groups.values(), key=lambda members: -sum(member.seconds for member in members)):
        predicted = None if price is None else price(members[0])
        mean = sum(member.seconds for member in members) / len(members)
        yield ExchangeRow(members[0], len(members) / profile.steps, mean, predicted)


def exchange_pricer(cluster: Cluster, world: int | None) -> Callable[[TracedExchange], float | None]:
    """Return a function that gives the predicted seconds of a traced exchange on a cluster with circuits in place, by
    the fabric's collective library where it states one, else by the cheapest schedule, among the ranks of its group,
    else among ``world`` ranks. Traced bytes are what a rank puts in: one share of the whole for an all-gather, the
    whole for an all-reduce or reduce-scatter.

    The function returns None where the kind, the bytes or the ranks are not known, the ranks are below 2 or more than
    the cluster's, or the fabric carries no such collective.
    """
    prices = GroupPrices(cluster.fabric, cluster.training)

    def price(exchange: TracedExchange) -> float | None:
        """Return the predicted seconds of one of many equal exchanges; None where it cannot be priced."""
        ranks = exchange.ranks or world
        kind = dict(zip(KINDS, get_args(Kind), strict=True)).get(exchange.kind)
        if kind is None or exchange.nbytes is None or ranks is None or not 2 <= ranks <= cluster.ranks:
            return None
        # What a rank puts into an all-gather is its share of what all have in the end.
        nbytes = exchange.nbytes * ranks if kind == "all-gather" else exchange.nbytes
        try:
            return float(prices.price(AUTO, ranks, 0)(kind, nbytes).cost.repeated_time)
        except InputError:
            return None

    return price
