"""Training recipes: frozen records that determine a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import sqrt
from typing import Any, Literal, get_args

from lightloom.core.errors import ConfigError
from lightloom.core.results import attributes
from lightloom.photonics.averaging.cascade import second_level
from lightloom.photonics.averaging.function import AveragingFunction, Rounding
from lightloom.photonics.averaging.networks import TABLE_I, Nonlinearity
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.mapping import Form as MeshForm
from lightloom.photonics.meshes.mapping import network_count

Form = Literal["free", "periodic", "cayley"]
GradientLoss = Literal["raw", "straight-through"]
_OF_DEVICES = ("devices", "aware_from", "mesh_form")
_OF_CASCADES = ("carries_decimals", "groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecipe:
    """Recipe for training the averaging function on its whole grid.

    Raises:
        ConfigError: a value is out of range, or layers do not fit the function.
    """

    servers: int
    bits: int
    layers: tuple[int, ...]
    """Number of signals of the inputs, the hidden layers and the outputs."""
    approximated: tuple[int, ...] = ()
    """Numbers of the matrices that consist of squares Σ·U, from 1 (Table I)."""
    form: Form = "free"
    """How matrices are approximated: ``periodic`` projects every ``project_every`` epochs and at the end (the paper,
    eq. 4 to 6), ``cayley`` parametrises the form itself, ``free`` approximates nothing."""
    constructed: bool = False
    """Training starts from constructed weights that are exact in these layers (`averaging.construct`)."""
    nonlinearity: Nonlinearity = "relu"
    noise: float = 0.0
    """Largest standard deviation of the training noise on every signal, relative to its full scale. The noise rises
    towards it as long as the network tolerates it (`Curriculum`)."""
    devices: NonIdealities | None = None
    """Errors of the devices, drawn anew for every batch: training runs through the meshes (`model.DrawnDevices`)."""
    aware_from: float = 0.5
    """Share of the training after which devices err; before, the network learns the function undisturbed."""
    mesh_form: MeshForm = "economy"
    """How matrices are mapped to the meshes whose devices err."""
    margin: float = 0.0
    """Deviation without loss: the loss is that of max(|o − o*| − margin, 0)."""
    epochs: int = 120
    cpu_seconds: float | None = None
    """CPU time of the training, instead of epochs. Such runs are only approximately repeatable."""
    batch: int = 512
    learning_rate: float = 2e-3
    """Learning rate of Adam (0.9, 0.99) after a warm-up of 200 steps, with a cosine schedule to 0."""
    project_every: int = 1
    gradient_epochs: int = 0
    """Number of last epochs with the loss of the reconstructed gradient (eq. 7, second phase). 0 because this phase
    made every network worse on which it was tried (docs/photonics/trained-networks.md)."""
    gradient_loss: GradientLoss = "raw"
    """Gradient loss of raw outputs, or of received levels with a straight-through gradient."""
    output_weights: tuple[float, ...] | None = None
    """Output weights W_T of eq. 7; all 1 by default."""
    seed: int = 0
    threads: int = 1
    """Number of threads, which is fixed because sums in another order round differently."""
    device: str = "cpu"
    inputs: int = 4
    rounding: Rounding = "floor"
    carries_decimals: bool = False
    """True if the last output carries decimals, for level 2 of a cascade: the network is level 1."""
    groups: int | None = None
    """Number of groups of servers whose averagers stand below: the network is level 2 of a cascade."""

    def __post_init__(self) -> None:
        """Raise ConfigError where a value is out of range, options exclude each other, or layers do not fit the
        function."""
        if self.carries_decimals and self.groups is not None:
            raise ConfigError(f"groups = {self.groups}: level 2 carries no decimals, expected one of the two")
        function = self.function
        ends = (len(function.inputs), function.outputs)
        if len(self.layers) < 2 or (self.layers[0], self.layers[-1]) != ends or min(self.layers) < 1:
            raise ConfigError(f"layers = {list(self.layers)}: expected {ends[0]}, hidden layers, {ends[1]}")
        _one_of("form", self.form, get_args(Form))
        _one_of("nonlinearity", self.nonlinearity, get_args(Nonlinearity))
        _one_of("gradient_loss", self.gradient_loss, get_args(GradientLoss))
        if self.constructed and self.groups is not None:
            raise ConfigError(f"groups = {self.groups}: level 2 has no constructed start, expected constructed = false")
        if (self.form == "free") != (not self.approximated):
            raise ConfigError(f"form = {self.form!r}, approximated = {list(self.approximated)}: free has none")
        for layer in self.approximated:
            if not 1 <= layer < len(self.layers):
                raise ConfigError(f"approximated layer {layer}: the network has matrices 1 to {len(self.layers) - 1}")
            short, long = sorted(self.layers[layer - 1 : layer + 1])
            if long % short:
                raise ConfigError(f"approximated layer {layer}: squares do not fit, {long} is no multiple of {short}")
        for name in ("epochs", "batch", "project_every", "threads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}: expected at least 1")
        if not 0 <= self.gradient_epochs <= self.epochs:
            raise ConfigError(f"gradient_epochs = {self.gradient_epochs}: expected 0 to {self.epochs}")
        if not 0 <= self.noise < 1 or not 0 <= self.margin < 0.5 or not 0 < self.learning_rate < 1:
            values = f"noise = {self.noise}, margin = {self.margin}, learning_rate = {self.learning_rate}"
            raise ConfigError(f"{values}: expected 0 to 1, 0 to 0.5, above 0 to 1")
        _one_of("mesh_form", self.mesh_form, get_args(MeshForm))
        if not 0 <= self.aware_from < 1:
            raise ConfigError(f"aware_from = {self.aware_from}: expected a share of the training from 0 to below 1")
        if self.devices is not None and self.devices.detector_noise:
            raise ConfigError(f"detector_noise = {self.devices.detector_noise}: expected 0; `noise` is that of signals")
        if self.cpu_seconds is not None and (not self.cpu_seconds > 0 or self.gradient_epochs):
            raise ConfigError(f"cpu_seconds = {self.cpu_seconds}: expected a time above 0, and no gradient_epochs")
        if self.output_weights is not None and len(self.output_weights) != ends[1]:
            raise ConfigError(f"{len(self.output_weights)} output weights: expected {ends[1]}")

    @classmethod
    def scenario(cls, number: int, **options: Any) -> TrainingRecipe:
        """Return the recipe for a row of the paper's Table I, ``number`` from 1 to 4.

        ``options`` are fields that replace those of the row: by default the row's approximated matrices have the Cayley
        form, and epochs (120 · √(28,561 / points), at least 6) and batch (512, or 4,096 from a million points on)
        follow from the size of the grid. With ``form="free"`` none is approximated.

        Raises:
            ConfigError: the scenario does not exist, or an option is out of range.
        """
        if number not in range(1, len(TABLE_I) + 1):
            raise ConfigError(f"scenario {number}: expected 1 to {len(TABLE_I)}")
        row = TABLE_I[number - 1]
        form = options.pop("form", "cayley")
        approximated = options.pop("approximated", () if form == "free" else row.approximated)
        points = AveragingFunction.of(row.servers, row.bits).points
        # Steps decide more than points: batches of 4,096 left scenario 2 at 23 % after as many epochs.
        defaults = {"epochs": _scaled_epochs(points), "batch": 512 if points < 1e6 else 4096}
        sizes = attributes(row, "servers bits layers")
        return cls(approximated=approximated, form=form, **(sizes | defaults | options))

    @classmethod
    def cascade(cls, groups: int, **options: Any) -> tuple[TrainingRecipe, TrainingRecipe]:
        """Return the recipes of level 1 and level 2 of a cascade of ``groups`` averagers, by default with the paper's
        layers for 16 servers.

        The default of either level is scenario 1 (4 servers a group, 8 bits) with two matrices of 64 x 64 more, after
        the first layer and before the last, every matrix approximated in Cayley form. In level 1, an error of the last
        output counts as often as it has levels between two digits. Epochs follow from the size of each grid unless
        ``epochs`` or ``cpu_seconds`` are given. ``options`` are fields that replace those of both recipes, except
        ``output_weights``, which follow from the level.

        Raises:
            ConfigError: an option is out of range.
        """
        row = TABLE_I[0]
        layers = options.pop("layers", (row.layers[0], 64, *row.layers[1:-1], 64, row.layers[-1]))
        form = options.pop("form", "cayley")
        approximated = options.pop("approximated", () if form == "free" else tuple(range(1, len(layers))))
        values = {"servers": row.servers, "bits": row.bits, "layers": layers, "form": form} | options
        levels = []
        for level in ({"carries_decimals": True}, {"groups": groups}):
            plain = cls(**values, **level, approximated=approximated)
            points = plain.function.points
            budget = {} if options.keys() & {"epochs", "cpu_seconds"} else {"epochs": _scaled_epochs(points)}
            weights = (*[1.0] * (layers[-1] - 1), float(plain.servers)) if plain.carries_decimals else None
            levels.append(plain.but(**budget, output_weights=options.get("output_weights", weights)))
        return levels[0], levels[1]

    def but(self, **changes: Any) -> TrainingRecipe:
        """Return the recipe with the values of some fields changed.

        Raises:
            ConfigError: the recipe is then invalid.
        """
        return replace(self, **changes)

    @property
    def function(self) -> AveragingFunction:
        """Averaging function to learn; with ``groups`` that of level 2 of a cascade, over all groups."""
        if self.groups is not None:
            return second_level(self.groups, self.servers, self.bits, self.inputs, self.rounding)
        return AveragingFunction.of(self.servers, self.bits, self.inputs, self.rounding, self.carries_decimals)

    @property
    def mzi_count(self) -> int:
        """Number of MZIs of the network's matrices in the paper's convention, approximated ones as squares, without P,
        T and biases."""
        return network_count(self.layers, self.approximated)

    @property
    def work(self) -> int:
        """Total work of a training: epochs, or CPU seconds, rounded, if these are the budget."""
        return self.epochs if self.cpu_seconds is None else round(self.cpu_seconds)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object, tuples as lists.

        Fields of erring devices, of cascades, and of a constructed start are left out unless the recipe has them.
        """
        fields = asdict(self)
        in_cascade = self.carries_decimals or self.groups is not None
        left_out = {*(() if self.devices else _OF_DEVICES), *(() if in_cascade else _OF_CASCADES)}
        left_out |= set() if self.constructed else {"constructed"}
        fields = {name: value for name, value in fields.items() if name not in left_out}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def _scaled_epochs(points: int) -> int:
    """Return the number of epochs for a grid of ``points`` points: 120 · √(28,561 / points), rounded, and at least 6.

    Larger grids are trained for more steps, but fewer epochs.
    """
    return max(6, round(120 * sqrt(28_561 / points)))


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    """Raise ConfigError unless ``value`` is one of ``known``; the message has ``name`` and lists them."""
    if value not in known:
        raise ConfigError(f"{name} = {value!r}: expected one of {', '.join(known)}")


# Schedule of the training noise, controlled by the share of noisy inputs received correctly.

START = 5e-4
RISING = 0.9995
"""Share of noisy inputs received correctly above which the noise rises; below it the noise falls. The noise limit is
defined at 0.9999 (`averaging.proof.TARGET`); at slightly more noise, training sees the errors that set it."""
_STEP = 2e-3
_MEMORY = 0.02


@dataclass
class Curriculum:
    """The noise to train with, between `START` and ``largest``."""

    largest: float
    sigma: float = START
    right: float = 0.0
    """Running share of noisy inputs received correctly."""

    def observe(self, right: float) -> None:
        """Update the training noise in place after a batch of which the share ``right`` was received correctly.

        The running share moves by 2 % of its distance to ``right`` first. The noise rises by 0.2 % where that is above
        `RISING` (0.9995), else it falls by as much, and stays between `START` (5e-4) and ``largest``; where ``largest``
        is below `START`, it is ``largest``.
        """
        self.right += _MEMORY * (right - self.right)
        self.sigma *= 1 + _STEP if self.right > RISING else 1 - _STEP
        self.sigma = min(max(self.sigma, min(START, self.largest)), self.largest)
