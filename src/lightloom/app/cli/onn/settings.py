"""Settings of the ``onn`` commands: a YAML file and ``--set field=value`` state them; their JSON Schemas (of
``LinkSettings`` that is `lightloom catalog --schema onn-link`) say what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from pydantic import BeforeValidator, ConfigDict, Field, create_model

from lightloom.app.cli.options import Help, read_settings
from lightloom.core.configfile import read_config, read_yaml, validate
from lightloom.core.fields import Config, Count
from lightloom.core.results import Document
from lightloom.photonics.averaging.networks import load_mapping
from lightloom.photonics.averaging.proof import EVALUATIONS
from lightloom.photonics.chip.floorplan import Rules
from lightloom.photonics.devices import ERRORS, NonIdealities
from lightloom.photonics.link.settings import OPTIONS, SOURCES, Link, show_value
from lightloom.photonics.meshes.mapping import MeshMapping

SettingsFile = Annotated[
    Path | None,
    Help("YAML file of settings, each `field: value`; `lightloom catalog --schema` lists their schemas.", "FILE.yaml"),
]
SettingTexts = Annotated[list[str] | None, Help("One setting, before that of the file; repeatable.", "FIELD=VALUE")]
_Text = Annotated[str, Field(coerce_numbers_to_str=True)]


def _numbers(value: Any) -> Any:
    """Return a text such as ``16,32`` as a list of its parts, a number as a list of one, and a list as it is."""
    return value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]


_Numbers = Annotated[tuple[int, ...], BeforeValidator(_numbers), Field(min_length=1)]

# Errors of devices.


class TrainedErrors(Config):
    """Errors of devices that a training knows of."""

    phase_error: float = 0.0
    """Error of every phase in radians, a standard deviation."""
    coupler_error: float = 0.0
    """Error of the mixing angle of every coupler in radians, a standard deviation; silicon has 0.01 to 0.02."""
    loss: float = 0.0
    """Loss of every interferometer in dB."""
    dac_bits: int = 0
    """Bits of the phase settings; 0 is continuous."""

    def non_idealities(self) -> NonIdealities:
        """Return the errors of devices; those that these settings lack are 0. ConfigError for one out of range."""
        given = {field: getattr(self, name.replace("-", "_"), 0.0) for name, field in ERRORS.items()}
        return NonIdealities(**cast(Any, given))


class ChipErrors(TrainedErrors):
    """Errors of devices of a fabricated chip."""

    loss_spread: float = 0.0
    """Standard deviation of that loss in dB."""
    heater_spread: float = 0.0
    """Error of every heater's phase for a command, a share, standard deviation."""
    crosstalk: float = 0.0
    """Share of a heater's phase that reaches each nearest heater."""


class DeviceErrors(ChipErrors):
    """Errors of devices of a chip and of its detectors."""

    detector_noise: float = 0.0
    """Noise at units and receivers, a share of full scale."""


# How a network is mapped to meshes: by the settings, the file of the network, or the command's own default.


class MeshSettings(Config):
    """Mapping of a network to meshes; what is not set is taken from the network's file or the command's default."""

    form: str | None = None
    """``economy``, ``compact``, ``svd`` (the paper's), ``sigma-u`` (its approximation) or ``unitary``, of `onn map`."""
    mesh: str | None = None
    """``rectangular`` (also the default) or ``triangular``."""
    gains: str | None = None
    """``rows`` (also the default), a gain for each output, or ``common``, one for all of a matrix."""
    components: bool | None = None
    """Whether connected components of a matrix get meshes of their own, whose waveguides cross."""

    def given(self) -> Document:
        """Return the fields of the mapping (``form``, ``mesh``, ``gains``, ``components``) that are not None, by
        name."""
        return {name: value for name in MeshSettings.model_fields if (value := getattr(self, name)) is not None}

    def mapping(self, network: Path | None, default: MeshMapping, exact: bool = True) -> MeshMapping:
        """Return the mapping that the file stores, else ``default``, with the fields that are set in place of its own.

        Args:
            network: file of the network, of which only an .npz file can store a mapping, or None.
            default: the command's own mapping.
            exact: whether a mapping that only approximates the matrices is refused.

        Raises:
            InputError: a field has an unknown value, an approximation where ``exact``, or the file cannot be read.
        """
        chosen = default.but(**self.given())
        if exact:
            chosen.exact()
        if stored := stored_mapping(network):
            chosen = stored.but(**self.given())
        return chosen.exact(f"{str(network)!r}: ") if exact else chosen


def stored_mapping(network: Path | None) -> MeshMapping | None:
    """Return the mapping that a file stores: the one with which `onn build --tolerate` judged its network. None for no
    file, another one than .npz, or one that stores no mapping."""
    return load_mapping(network) if network is not None and network.suffix == ".npz" else None


# Settings of each command.


class BuildSettings(Config):
    """Settings of `onn build`."""

    nonlinearity: str | None = None
    """``relu``, or ``clipped``: units that saturate; ``clipped`` with --tolerate, else ``relu``."""
    inputs: int = 4
    """Signals that P groups the codes to."""
    rounding: str = "floor"
    """``floor`` or ``half-up``."""
    carries_decimals: bool = False
    """Whether the last output keeps decimals, for level 2 of a cascade."""
    word_errors: float | None = None
    """Share of wrong words that --tolerate allows; 1e-4 if not set."""
    tuples: Count = 200_000
    """Tuples of codes that are sent through a cascade."""
    evaluations: Count = EVALUATIONS
    """Noisy draws behind each accuracy on the way to the noise limit."""
    samples: Count = 1_000_000
    """Points of a grid above 20 million on which a network of a file is tried, half of them beside carries."""
    seed: int = 0
    """Seed of the fabrications of --tolerate."""


class ReducersSettings(Config):
    """Settings of `onn build --reducers`: those below, and constants of the comparison by their names, in the units
    that --json lists."""

    model_config = ConfigDict(extra="allow")

    word_errors: float = 1e-6
    """Share of wrong words that sums in the light may have; error correction of them is not counted."""
    pair: str = "digit-sum,reducer-asic"
    """The two rivals whose difference is explained."""
    draws: int = Field(200, ge=20)
    """Draws of all constants behind the ranges."""


class TrainSettings(TrainedErrors):
    """Settings of `onn train`; errors of devices are those that the training runs through."""

    form: str | None = None
    """``cayley`` (also the default), ``periodic`` (projected, as the paper does), or ``free``."""
    approximated: _Numbers | None = None
    """Numbers of the matrices in that form; the paper's, or all of --layers."""
    constructed: bool = False
    """Whether training starts from constructed weights, exact in the same layers."""
    aware_from: float | None = None
    """Share of the training after which devices err; half of it if not set."""
    noise: float = 0.0
    """Noise on every signal to train for, a share of full scale."""
    nonlinearity: str = "relu"
    """``relu``, or ``clipped``: units that saturate."""
    rounding: str = "floor"
    """``floor`` or ``half-up``."""
    cpu_seconds: float | None = None
    """CPU seconds of the training, in place of epochs."""
    epochs: int | None = None
    """Passes over the grid; by its size if not set."""
    batch: Count | None = None
    """Inputs of a step."""
    gradient_epochs: int = 0
    """Last epochs with the loss of the mean code (eq. 7, phase 2)."""
    gradient_loss: str = "raw"
    """That loss: ``raw``, or ``straight-through`` received levels."""
    threads: int = 1
    """PyTorch's threads; other counts round differently."""
    device: str = "cpu"
    """``cpu``, ``cuda``, ..."""
    widths: _Numbers = (16, 32, 64)
    """Neurons of the hidden layers that --search tries."""
    depths: _Numbers = (3, 5)
    """Numbers of hidden layers that --search tries."""


class MapSettings(MeshSettings):
    """Settings of `onn map`."""

    layer: _Text | None = None
    """Layer that --figure draws: its number, P or T; the first if not set."""


class ChipSettings(MeshSettings):
    """Settings of `onn map --study chip`."""

    pitch: float = Rules().pitch
    """Distance of neighbouring waveguides in µm, an assumption."""


class DisturbSettings(MeshSettings, DeviceErrors):
    """Settings of `onn map --study disturb`."""

    correct: bool = False
    """Whether couplers and crosstalk are measured and made up for."""
    uncalibrated: bool = False
    """True if amplifiers are not set to make up for what is lost evenly."""
    samples: Count = 400_000
    """Grid points behind one accuracy; all where there are no more."""


class ModelSettings(DeviceErrors):
    """Settings of `onn map --study train`."""

    data: Path | None = None
    """Folder with MNIST; $LIGHTLOOM_DATA if not set."""
    iterations: Count = 1000
    """Iterations of the training."""
    folder: Path | None = None
    """Folder that keeps what is trained, to resume it."""


class CalibrateSettings(MeshSettings, ChipErrors):
    """Settings of `onn map --study calibrate`."""

    phase_error: float = 0.1
    """Unknown offset of every phase in radians, a standard deviation. An assumption."""
    coupler_error: float = 0.02
    """Error of the mixing angle of every coupler in radians, a standard deviation; silicon has 0.01 to 0.02."""
    heater_spread: float = 0.01
    """Error of every heater's phase for a command, a share, standard deviation. An assumption; it is fitted."""
    modes: int = Field(8, ge=1, le=64)
    """Modes of each random unitary matrix; the fit has 6 unknowns an interferometer, 12,096 at 64 modes."""
    chips: Count = 1
    """Random unitary matrices, each on a chip of its own."""
    power_noise: float = 1e-3
    """Noise of a measured power, a share of the input power. An assumption."""
    unknown_offsets: bool = False
    """True if phase offsets are drawn from a whole turn and found by sweeps first; of random matrices."""
    output_orders: int | None = Field(None, ge=0)
    """Orders of the outputs to try where couplers cannot split as designed; 20 if not set."""
    drift: float = 0.0
    """Drift of every phase between two settings in radians, a standard deviation."""
    aging: float = 0.0
    """Drift of every phase afterwards in radians; then 4 settings calibrate again."""
    measured_settings: Count | None = None
    """Settings of the chip that are measured; 12 or more if not set."""


class LinkTrial(MeshSettings):
    """Settings of `onn link`: its trial, the mapping (square meshes of components if not set), and its parts."""

    ideal: bool = False
    """True if every part that is not set is ideal."""
    parts: bool = True
    """Whether each part is tried ideal and alone, to find the weakest."""
    words: Count = 20_000
    """Words sent through each fabrication, half of them near-equal."""


def _of_part(name: str) -> Any:
    """Return annotation and field, for pydantic, of a link's option ``name`` (with hyphens): a text with its unit or a
    number, None if it is not set, described with its default and the default's source."""
    option = OPTIONS[name]
    default = f"Default {show_value(name, getattr(Link(), option.field))}; {SOURCES[option.field]}."
    return _Text | None, Field(None, description=f"{option.help} {default}")


LinkSettings: type[LinkTrial] = create_model(
    "LinkSettings",
    __base__=LinkTrial,
    __doc__=LinkTrial.__doc__,
    **cast(Any, {name.replace("-", "_"): _of_part(name) for name in OPTIONS}),
)
_Kind = TypeVar("_Kind", bound=Config)


def settings_of(kind: type[_Kind], file: Path | None, texts: list[str] | None) -> _Kind:
    """Return settings of a kind from a YAML file and ``--set`` texts ``field=value``, which override the file's;
    hyphens count as underscores in names of the texts, the last of which counts where a field is repeated.

    Fields that neither states have their defaults; either may be None.

    Raises:
        InputError: an unknown name (but for reducers, where it is a constant), or a value of another kind.
    """
    name = f"onn-{kind.__name__.removesuffix('Settings').lower()}"
    fields = {field.replace("-", "_"): value for field, value in read_settings(texts).items()}
    if kind.model_config.get("extra") == "allow":
        return validate(kind, {**(read_yaml(file) if file else {}), **fields}, name)
    return read_config(kind, name, file, fields)
