# mypy: disable-error-code="no-any-return"
"""Modules of ``transformers`` from the fields of a ``config.json``, on the meta device; nothing is downloaded."""

import contextlib
import importlib.util
import os
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from lightloom.core.errors import WorkloadError
from lightloom.models.graph import ComputeGraph
from lightloom.models.torch.trace import trace_factory

# Beside a PyTorch for processors, torchvision's wheel for CUDA loads no compiled operators; libraries that import it,
# transformers among them, then fail although they need none of these.

_OPERATORS = ("nms", "qnms")


@cache
def declare_operators() -> Any:
    """Declare the operators whose shapes torchvision registers on import, where its compiled ones cannot be loaded.

    Returns the library object that keeps the declarations alive; None where torchvision is missing or loads its own.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return None
    try:
        torch.ops.load_library(str(Path(spec.origin).parent / "_C.so"))  # type: ignore[no-untyped-call]
    except (OSError, ImportError):
        declared = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in _OPERATORS:
            declared.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
        return declared
    return None


Configuration: TypeAlias = Any
"""A configuration of transformers, or a class or module of it; its types are not imported."""
Fields: TypeAlias = Mapping[str, Any]
"""Fields of a ``config.json``."""

INSTALL = "needs transformers, which is not installed: pip install 'lightloom[transformers]'"
LONGEST = 4096
"""Tokens of a sample where the configuration allows more, and nothing else is asked for: an assumption."""
_UNLIMITED = 512
"""Tokens of a sample where the configuration sets no limit: an assumption."""
_IMAGE = 224
_SECONDS, _SAMPLES_A_SECOND = 10, 16_000
_LIMITS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_source_positions", "seq_length")
_OF_ALL = ("torch_dtype", "auto_map", "transformers_version", "rope_theta", "rope_scaling", "_name_or_path")
"""Fields of every configuration, or of many under an older name."""
_SILENT = 50
"""Level above errors, of the library's messages."""
_GROUPED = "grouped_mm"
"""Experts in one product, whose shapes do not depend on values."""


def trace_configuration(
    fields: Fields, *, name: str, batch: int, sequence_length: int | None
) -> tuple[ComputeGraph, tuple[str, ...], tuple[str, ...]]:
    """Build the model that a ``config.json`` describes, and trace it with inputs of its kind.

    Returns the graph, a sentence on each assumption where the configuration says nothing, and the fields that the class
    of configurations does not know.

    Args:
        fields: the object in the file.
        name: name of the graph, and of the model in messages.
        batch: samples of the graph.
        sequence_length: tokens of a sample; None takes as many as the configuration allows, up to :data:`LONGEST`
            (4096), or 512 where it sets no limit.

    Raises:
        WorkloadError: ``transformers`` is missing, does not know the architecture, or cannot build or trace it.
    """
    library = _library(name)
    with _offline(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = _configuration(library, fields, name)
        kind = _architecture(library, config, fields, name)
        graph, assumptions = _traced(kind, config, name, batch, sequence_length)
    return graph, tuple(assumptions), _unknown_fields(config, fields)


def _unknown_fields(config: Configuration, fields: Fields) -> tuple[str, ...]:
    """Return the names of fields that no configuration of this class has, in the file's order, without those of every
    configuration, such as ``torch_dtype``; none where the class has no defaults to tell."""
    try:
        known = set(type(config)().to_dict()) | set(config.attribute_map)
    except Exception:
        return ()
    return tuple(key for key in fields if key not in known and key not in _OF_ALL and not hasattr(type(config), key))


def _traced(
    kind: Configuration, config: Configuration, name: str, batch: int, sequence_length: int | None
) -> tuple[ComputeGraph, list[str]]:
    """Return the model's graph and a sentence on each assumption: in training mode, or in evaluation mode, which is
    noted as an assumption, where values of tensors steer the forward pass in training.

    ``kind`` is the class of the model and ``config`` its configuration; ``sequence_length`` is None for as many tokens
    as the configuration allows. WorkloadError where neither mode can be traced.
    """

    def traced(training: bool) -> tuple[ComputeGraph, list[str]]:
        """Return the graph and the assumptions of its inputs, traced in training or in evaluation mode."""
        inputs = _Inputs(config, sequence_length, name)
        graph = trace_factory(
            lambda: inputs.with_module(_build_module(kind, config, name).train(training)), name=name, batch=batch
        )
        return graph, inputs.assumptions

    try:
        return traced(True)
    except WorkloadError as error:
        if "cannot steer" not in str(error):
            raise
        graph, assumptions = traced(False)
        return graph, [*assumptions, "dropped layers and dropout: none, its training mode cannot be traced"]


def _library(name: str) -> Configuration:
    """Return the module ``transformers``, imported with the hub offline by default; WorkloadError where it is
    missing."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    declare_operators()
    try:
        import transformers
    except ImportError as error:
        raise WorkloadError(f"{name}: {INSTALL}") from error
    return transformers


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Silence the library's messages, those of errors too, while the context lasts."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity(_SILENT)
    try:
        yield
    finally:
        logging.set_verbosity(level)


def _configuration(library: Configuration, fields: Fields, name: str) -> Configuration:
    """Return the configuration of transformers that the fields describe, without a cache of keys; quantization is left
    out.

    Its class is that of ``model_type``, or without this field of the first architecture.

    Raises:
        WorkloadError: the type is missing or unknown, or its class refuses the fields.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = fields.get("model_type") or _type_of(fields.get("architectures"))
    version = f"transformers {library.__version__}"
    if not isinstance(kind, str):
        raise WorkloadError(
            f"{name}: field 'model_type' is missing: expected one that {version} knows, such as 'llama'"
        )
    if kind not in CONFIG_MAPPING:
        own = " (the file brings code of its own, which is not run)" if fields.get("auto_map") else ""
        raise WorkloadError(f"{name}: field 'model_type': {kind!r}: no architecture that {version} knows{own}")
    skipped = ("quantization_config", "auto_map", "model_type")
    given = {key: value for key, value in fields.items() if key not in skipped}
    try:
        config = CONFIG_MAPPING[kind].from_dict(given)
    except Exception as error:
        raise WorkloadError(f"{name}: {version} refuses the configuration: {_error_text(error)}") from error
    config.use_cache = False
    return config


def _type_of(architectures: Any) -> str | None:
    """Return the type of model (such as ``llama``) that the first architecture belongs to; None where no table lists
    it."""
    from transformers.models.auto import modeling_auto as auto

    name = architectures[0] if isinstance(architectures, list) and architectures else None
    for table in vars(auto).values():
        if isinstance(table, dict) and isinstance(name, str):
            for kind, models in table.items():
                if name == models or (isinstance(models, (tuple, list)) and name in models):
                    return str(kind)
    return None


def _architecture(library: Configuration, config: Configuration, fields: Fields, name: str) -> Configuration:
    """Return the class of the first architecture that the file names, in any letter case; without one, the class for
    causal, else for masked language models, else the plain one.

    Raises:
        WorkloadError: the library has no class of that name, or no model for the configuration.
    """
    named = fields.get("architectures")
    wanted = named[0] if isinstance(named, list) and named else None
    if isinstance(wanted, str):
        # Early files write some names otherwise, such as LLaMAForCausalLM.
        spellings = {other.lower(): other for other in dir(library)}
        kind = getattr(library, spellings.get(wanted.lower(), wanted), None)
        if kind is not None:
            return kind
    from transformers.models.auto import modeling_auto as auto

    if isinstance(wanted, str):
        raise WorkloadError(
            f"{name}: field 'architectures': {wanted!r}: no class of transformers {library.__version__}: expected one, "
            f"or no such field, which takes the class for {config.model_type!r}"
        )
    for mapping in (auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_MASKED_LM_MAPPING, auto.MODEL_MAPPING):
        if type(config) in mapping:
            kind = mapping[type(config)]
            return kind[0] if isinstance(kind, tuple) else kind
    raise WorkloadError(f"{name}: transformers {library.__version__} has no model for {config.model_type!r}")


def _build_module(kind: Configuration, config: Configuration, name: str) -> nn.Module:
    """Return the module of the class ``kind`` for a configuration, in float32, its experts in one grouped product where
    the class offers that; WorkloadError, which names the model ``name``, if it cannot be built."""
    options: dict[str, Any] = {"dtype": torch.float32}
    if getattr(kind, "_can_set_experts_implementation", lambda: False)():
        options["experts_implementation"] = _GROUPED
    try:
        module = kind._from_config(config, **options)
    except Exception as error:
        raise WorkloadError(f"{name}: {kind.__name__} cannot be built: {_error_text(error)}") from error
    assert isinstance(module, nn.Module)
    return module


class _Inputs:
    """Example inputs of a model by its kind: tokens, images, sound or features of sound."""

    def __init__(self, config: Configuration, sequence_length: int | None, name: str) -> None:
        """Take the configuration, the tokens of a sample that are asked for, and the model's name for messages."""
        self._config, self._length, self._name = config, sequence_length, name
        parts = (getattr(config, name, None) for name in ("text_config", "text"))
        self._text = next((part for part in parts if part is not None), config)
        self._vision = getattr(config, "vision_config", None)
        self.assumptions: list[str] = []

    def with_module(self, module: nn.Module) -> tuple[nn.Module, dict[str, Tensor], int]:
        """Return the module, its example inputs by argument for two samples, on the meta device and so without values,
        and the axis of samples (always 0).

        The main input is what the module names so. Targets (``decoder_input_ids``) are added where the model is an
        encoder-decoder that takes them, images beside tokens where it takes them and they do not stand among the
        tokens.

        Raises:
            WorkloadError: a sequence length is given and the model takes no tokens, or its table of positions is
                shorter.
        """
        import inspect

        taken = inspect.signature(module.forward).parameters
        main = getattr(module, "main_input_name", "input_ids")
        makers = {"pixel_values": self._image, "input_values": self._sound, "input_features": self._features}
        if main in makers:
            if self._length is not None and "decoder_input_ids" not in taken:
                raise WorkloadError(
                    f"{self._name}: {type(module).__name__} takes no tokens: expected no sequence length"
                )
            inputs = {main: makers[main]()}
        else:
            inputs = {"input_ids": self._tokens(module)}
        both = self._vision is not None and "image_embeds" not in taken
        # Where images stand among the tokens, only values tell their places.
        placed = any(hasattr(self._config, name) for name in ("image_token_id", "image_token_index", "image_token"))
        if main == "input_ids" and both and "pixel_values" in taken and not placed:
            inputs["pixel_values"] = self._image()
        if getattr(self._config, "is_encoder_decoder", False) and "decoder_input_ids" in taken:
            limit = getattr(self._config, "max_target_positions", None)
            length = self._length or limit or inputs[main].shape[-1]
            inputs["decoder_input_ids"] = torch.zeros(2, length, dtype=torch.long, device="meta")
            if main != "input_ids" or self._length is None:
                self.assumptions.append(f"targets: {length:,} tokens a sample")
        if self._vision is not None and "pixel_values" not in inputs and "pixel_values" in taken:
            self.assumptions.append("images: none among the inputs, so that the vision model computes nothing")
        return module, inputs, 0

    def _tokens(self, module: nn.Module) -> Tensor:
        """Return two samples of tokens, (2, T) integers on the meta device, which hold no values: the length asked for,
        else the limit of the configuration (or 512), at most 4096.

        A length that was not asked for is noted as an assumption.

        Raises:
            WorkloadError: the length exceeds the model's learned table of positions.
        """
        limit = self._limit(module)
        length = self._length
        if length is None:
            length = min(limit or _UNLIMITED, LONGEST)
            allowed = f"the configuration allows {limit:,}" if limit else "the configuration sets no limit"
            self.assumptions.append(
                f"sequence length: {length:,} tokens a sample, {allowed}; --sequence-length sets it"
            )
        elif limit is not None and length > limit and _position_table(module) is not None:
            raise WorkloadError(
                f"{self._name}: --sequence-length {length}: its table of positions holds {limit}: expected at most that"
            )
        return torch.zeros(2, length, dtype=torch.long, device="meta")

    def _limit(self, module: nn.Module) -> int | None:
        """Return the tokens that the configuration allows, less the places a table keeps for the padding; None where it
        sets no limit."""
        values = (getattr(self._text, limit, None) for limit in _LIMITS)
        limit = next((value for value in values if isinstance(value, int) and value > 0), None)
        table = _position_table(module)
        if table is not None and table.padding_idx is not None and limit == table.num_embeddings:
            return limit - table.padding_idx - 1  # positions begin after the one of the padding
        return limit

    def _image(self) -> Tensor:
        """Return two images (2, channels, height, width) on the meta device, which hold no values, of the
        configuration's size and channels (3 without); 224 x 224 where it states no size, noted as an assumption."""
        config = self._vision or self._config
        size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", None) or 3
        if size is None:
            size = _IMAGE
            self.assumptions.append(f"images: {size} x {size}, the configuration states no size")
        height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        return torch.zeros(2, channels, height, width, device="meta")

    def _sound(self) -> Tensor:
        """Return two waveforms (2, 160000) on the meta device, which hold no values: 10 s at 16 kHz, which is noted as
        an assumption."""
        self.assumptions.append(f"sound: {_SECONDS} s of {_SAMPLES_A_SECOND:,} samples a second, an assumption")
        return torch.zeros(2, _SECONDS * _SAMPLES_A_SECOND, device="meta")

    def _features(self) -> Tensor:
        """Return features of sound, (2, mel bins, frames), on the meta device, which hold no values: twice as many
        frames as positions of the source; 80 bins and 3000 frames where the configuration says nothing."""
        frames = 2 * int(getattr(self._config, "max_source_positions", 0) or 1500)
        bins = int(getattr(self._config, "num_mel_bins", 0) or 80)
        return torch.zeros(2, bins, frames, device="meta")


def _position_table(module: nn.Module) -> nn.Embedding | None:
    """Return the first embedding of a module named ``position_embeddings`` or ``wpe``: its learned positions; None
    without one."""
    for path, part in module.named_modules():
        if isinstance(part, nn.Embedding) and path.rpartition(".")[2] in ("position_embeddings", "wpe"):
            return part
    return None


def _error_text(error: BaseException) -> str:
    """Return ``Class: message`` of an error in one line, the message cut to 300 characters."""
    text = " ".join((str(error).strip() or "no message").split())
    return f"{type(error).__name__}: {text[:300]}"
