"""Read torchtitan's job configuration (TOML): the model by name and flavor, and the strategy that it pins.

Keys moved between releases: degrees stood in ``[training]`` and ``[experimental]`` before ``[parallelism]``, and the
batch was ``batch_size`` before ``local_batch_size``.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.core.configfile import read_yaml
from lightloom.core.documents import read_text
from lightloom.core.errors import ConfigError, about
from lightloom.models.decoder import DecoderSizes, LatentAttention
from lightloom.models.files.model_file import FileRequest, ModelReading, StatedStrategy, trace_decoder

# Sizes of torchtitan's models by name and flavor.


ENDS = (1, 1)
"""Layers that torchtitan counts for the embedding and for the head when it divides layers between stages."""


def sizes_of(name: str, flavor: str) -> DecoderSizes | None:
    """Return the sizes of a flavor of a model (``llama3`` and ``8B``), at its default sequence length (``llama`` is
    ``llama3``); None where torchtitan has no model or no flavor of that name."""
    return _FLAVORS.get(_NAMES.get(name, name), {}).get(flavor)


def names() -> Iterator[str]:
    """Yield for each model its name with its flavors in brackets, for messages."""
    for name, flavors in _FLAVORS.items():
        yield f"{name} ({', '.join(flavors)})"


def _flavor(shared: Mapping[str, Any], own: Mapping[str, Any]) -> DecoderSizes:
    """Return the sizes of a flavor from fields of :class:`DecoderSizes` by name: ``own`` overrides those that the
    model's flavors ``shared``, and so do the fields of its ``latent`` attention."""
    fields = {**shared, **own}
    if "latent" in shared:
        fields["latent"] = LatentAttention(**shared["latent"] | own.get("latent", {}))
    return DecoderSizes(**fields | {"dense_layers": tuple(fields.get("dense_layers", ()))})


_NAMES = {"llama": "llama3"}
_FLAVORS = {
    name: {flavor: _flavor(model["shared"], own) for flavor, own in model["flavors"].items()}
    for name, model in read_yaml(Path(__file__).with_suffix(".yaml")).items()
}


_PLACES = ("parallelism", "training", "experimental")
_WITHOUT_EFFECT = {"job", "metrics", "profiling", "checkpoint", "comm", "validation", "compile", "fault_tolerance"}
"""Sections that say nothing of the model or its split."""


class JobConfiguration:
    """The settings of a file; what is asked for counts as used."""

    def __init__(self, path: Path, sections: Mapping[str, Any]) -> None:
        """Take the sections of a file, tables of settings by name; nothing counts as used yet."""
        self.path, self._sections, self._used = path, sections, set[tuple[str, str]]()

    def error(self, complaint: str) -> ConfigError:
        """Return, not raise, an error that names the file before the complaint."""
        return ConfigError(f"{self.path}: {complaint}")

    def get(self, key: str, kind: type, *sections: str) -> Any:
        """Return the value of a key in the first of the ``sections`` (names of tables) that has it, which then counts
        as used; None where none has it.

        Raises:
            ConfigError: a value whose type is not exactly ``kind``.
        """
        for section in sections:
            held = self._sections.get(section)
            if isinstance(held, dict) and key in held:
                self._used.add((section, key))
                if type(value := held[key]) is not kind:
                    raise self.error(f"[{section}] {key} = {value!r}: expected {_WORDS[kind]}")
                return value
        return None

    def count(self, key: str, *sections: str, least: int = 1, left: bool = False) -> int | None:
        """Return a number, such as a degree of parallelism, None where it is not stated; -1, which stands for all ranks
        that are left, is returned only if ``left`` allows it.

        The key is looked for in the ``sections``, by default ``[parallelism]``, ``[training]`` and ``[experimental]``.
        ConfigError for another value below ``least``, or no whole number.
        """
        value = self.get(key, int, *(sections or _PLACES))
        if value is not None and value < least and not (left and value == -1):
            raise self.error(f"{key} = {value}: expected at least {least}{' or -1' if left else ''}")
        return value if value is None else int(value)

    def unused(self) -> tuple[str, ...]:
        """Return the settings that nobody has asked for, as ``section.key``; sections that say nothing of the model by
        their name alone."""
        found = []
        for section, held in self._sections.items():
            if section in _WITHOUT_EFFECT or not isinstance(held, dict):
                found.append(section)
            else:
                found += [f"{section}.{key}" for key in held if (section, key) not in self._used]
        return tuple(found)


_WORDS = {int: "a whole number", str: "a text", bool: "true or false", list: "a list"}


def read_torchtitan(path: Path, request: FileRequest) -> ModelReading:
    """Return the model that a file of torchtitan (TOML) names, with its strategy and batches; the request's sequence
    length goes before the file's, that before torchtitan's.

    Raises:
        ConfigError: unreadable, no TOML, an unknown model or flavor (the message lists them), or settings that
            contradict each other.
        WorkloadError: PyTorch is missing.
    """
    job = read_job(path)
    name, flavor = job.get("name", str, "model"), job.get("flavor", str, "model")
    if name is None or flavor is None:
        raise job.error(f"[model] name and flavor are missing: expected one of {'; '.join(names())}")
    if (sizes := sizes_of(name, flavor)) is None:
        raise job.error(f"[model] {name!r}, flavor {flavor!r}: expected one of {'; '.join(names())}")
    notes = []
    length = request.sequence_length or job.count("seq_len", "training")
    if length is None:
        notes.append(f"sequence length: {sizes.sequence_length:,} tokens, torchtitan's default")
    with about(path):
        sizes = replace(sizes, sequence_length=length or sizes.sequence_length)
    pins, more = strategy_pins(job, sizes.layers)
    return ModelReading(
        graph=trace_decoder(sizes, name=f"{name} {flavor}", batch=request.batch),
        unrecorded=(*notes, *more),
        pins=pins,
        global_batch=global_batch(job),
        replica_batch=local_batch(job),
        stage_blocks=stage_blocks(job, sizes.layers, pins),
        unused=job.unused(),  # of all that is read before
    )


def read_job(path: Path) -> JobConfiguration:
    """Return the settings of a job configuration of torchtitan, a TOML file, of which none counts as used yet.

    Raises:
        ConfigError: unreadable, or no TOML.
    """
    try:
        return JobConfiguration(path, tomllib.loads(read_text(path)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error


def global_batch(job: JobConfiguration) -> int | None:
    """Return the samples of a step on all ranks; None where none, or a number below 1, are stated: torchtitan then
    takes one local batch of each replica. ConfigError for no whole number."""
    value = job.get("global_batch_size", int, "training")
    return value if value is not None and value > 0 else None


def local_batch(job: JobConfiguration) -> int | None:
    """Return the samples that a replica takes at once, by ``local_batch_size`` or else ``batch_size``; None where the
    file states neither. ConfigError for less than 1, or no whole number."""
    return job.count("local_batch_size", "training") or job.count("batch_size", "training")


def strategy_pins(job: JobConfiguration, layers: int | None) -> tuple[StatedStrategy, list[str]]:
    """Return (choices that a file states, sentences on what the plan does otherwise); degrees that it leaves out are 1.

    ``dp`` is replicas times shards, None where the shards are what is left of the ranks. ``micro_batch`` is the local
    batch without a pipeline, else ``pipeline_parallel_microbatch_size`` (default 1). ``sequence_parallel`` is True with
    tensor parallelism, else None. ``layers`` is the model's number of layers, None where it is not known. ConfigError
    for a setting that cannot be read.
    """
    notes: list[str] = []
    tp, pp = job.count("tensor_parallel_degree") or 1, job.count("pipeline_parallel_degree") or 1
    cp, ep = job.count("context_parallel_degree") or 1, job.count("expert_parallel_degree") or 1
    replicas = job.count("data_parallel_replicate_degree") or 1
    shards = job.count("data_parallel_shard_degree", left=True) or job.count("data_parallel_degree", left=True)
    experts = job.count("expert_tensor_parallel_degree")
    if experts is not None and ep > 1 and experts != tp:
        notes.append(f"experts over {experts} tensor ranks: the plan splits them over {tp}, as everything else")
    micro = job.count("pipeline_parallel_microbatch_size") or 1
    pins = StatedStrategy(
        dp=None if shards in (None, -1) else replicas * int(shards),
        tp=tp,
        pp=pp,
        cp=cp,
        ep=ep,
        micro_batch=micro if pp > 1 else local_batch(job),
        virtual_stages=_virtual_stages(job, pp, layers, notes),
        recomputation=_recomputation(job, notes),
        sharding=_sharding(job, pp, replicas, shards),
        sequence_parallel=True if tp > 1 else None,
    )
    return pins, notes


def _sharding(job: JobConfiguration, pp: int, replicas: int, shards: int | None) -> str:
    """Return ``none`` for one shard, ``hybrid`` with several ``replicas`` of shards, else ``zero-2`` where parameters
    are not resharded after the forward pass (the default with a pipeline, ``pp`` above 1), or ``zero-3``.

    ``shards`` is None or -1 where shards are what is left of the ranks. ConfigError for an unknown setting.
    """
    reshard = job.get("fsdp_reshard_after_forward", str, *_PLACES) or "default"
    if reshard not in ("default", "always", "never"):
        raise job.error(f"fsdp_reshard_after_forward = {reshard!r}: expected 'default', 'always' or 'never'")
    if shards == 1:
        return "none"
    if replicas > 1:
        return "hybrid"
    return "zero-2" if reshard == "never" or (reshard == "default" and pp > 1) else "zero-3"


def _recomputation(job: JobConfiguration, notes: list[str]) -> str:
    """Return ``none``, ``selective`` (the default) or ``full``, and add a sentence to ``notes`` where a
    ``selective_ac_option`` is stated, as plans recompute the insides of attention instead; ConfigError for another
    mode."""
    mode = job.get("mode", str, "activation_checkpoint") or "selective"
    if mode not in ("none", "selective", "full"):
        raise job.error(f"[activation_checkpoint] mode = {mode!r}: expected 'none', 'selective' or 'full'")
    option = job.get("selective_ac_option", str, "activation_checkpoint")
    if mode == "selective" and option is not None:
        notes.append(
            f"recomputation: selective_ac_option {option!r} of the file; the plan recomputes the insides of attention"
        )
    return str(mode)


def _virtual_stages(job: JobConfiguration, pp: int, layers: int | None, notes: list[str]) -> int:
    """Return the number of chunks (stages) of each of the ``pp`` pipeline ranks; ConfigError where the file's stages
    are no multiple of the ranks.

    By ``module_fqns_per_model_part``, else ``pipeline_parallel_split_points``, else
    ``pipeline_parallel_layers_per_stage``, if the file states one of them and the model's number of ``layers`` is
    known; else 2 for an interleaved schedule and 1 for others; always 1 without a pipeline. ``notes`` gain a line on a
    schedule that the plan replaces.
    """
    schedule = job.get("pipeline_parallel_schedule", str, *_PLACES) or "1F1B"
    each = job.count("pipeline_parallel_layers_per_stage")
    if pp == 1:
        return 1
    interleaved = schedule.lower() not in ("1f1b", "gpipe")
    if schedule.lower() not in ("1f1b", "interleaved1f1b"):
        notes.append(f"pipeline schedule: {schedule} of the file; the plan takes {'interleaved ' * interleaved}1F1B")
    named = _named_layers(job, layers)
    if layers is None or (named is None and each is None):
        return 2 if interleaved else 1
    chunks = len(named) if named is not None else -(-(layers + sum(_ends(job))) // (each or 1))
    if chunks % pp:
        stated = "module_fqns_per_model_part" if each is None else f"pipeline_parallel_layers_per_stage = {each}"
        raise job.error(f"{stated}: {chunks} stages of {layers} layers, expected a multiple of the {pp} ranks")
    return int(chunks) // pp


def stage_blocks(job: JobConfiguration, layers: int, pins: StatedStrategy) -> tuple[int, ...] | None:
    """Return the number of layers of each chunk, in the order of the model, as the file names them or else as
    torchtitan divides them; None for a single chunk. ``pins`` states the numbers of pipeline stages and of chunks in
    each.

    Raises:
        ConfigError: a chunk without layers, or names of other layers than the model's.
    """
    if (chunks := (pins.pp or 1) * (pins.virtual_stages or 1)) == 1:
        return None
    found = _named_layers(job, layers) or divided(layers, chunks, _ends(job))
    if min(found) < 1:
        raise job.error(f"stages of {', '.join(map(str, found))} of {layers} layers: expected one or more in each")
    return found


def _ends(job: JobConfiguration) -> tuple[int, int]:
    """Return the numbers of layers that the embedding and the head count as:
    ``pipeline_parallel_first_stage_less_layers`` and ``pipeline_parallel_last_stage_less_layers``, 1 where the file
    leaves one out. ConfigError below 0."""
    first, last = (job.count(f"pipeline_parallel_{end}_stage_less_layers", least=0) for end in ("first", "last"))
    return ENDS[0] if first is None else first, ENDS[1] if last is None else last


def _named_layers(job: JobConfiguration, layers: int | None) -> tuple[int, ...] | None:
    """Return the number of layers of each chunk where the file names its modules (``module_fqns_per_model_part``), or
    those that begin all chunks but the first (``pipeline_parallel_split_points``), in the order of the model; None
    where it names none or ``layers`` is None.

    Raises:
        ConfigError: not all layers of the model, each once and in order.
    """
    parts = job.get("module_fqns_per_model_part", list, *_PLACES)
    points = job.get("pipeline_parallel_split_points", list, *_PLACES)
    if layers is None or not (parts or points):
        return None
    every = [f"layers.{layer}" for layer in range(layers)]
    if parts:
        held = [[name for name in part if str(name).startswith("layers.")] for part in parts if isinstance(part, list)]
        right = [name for part in held for name in part] == every
        counts = tuple(map(len, held))
    else:
        right = set(points) <= set(every[1:]) and points == sorted(set(points), key=every.index)
        counts = tuple(np.diff([0, *map(every.index, points), layers]).tolist()) if right else ()
    if not right:
        raise job.error(
            f"{'module_fqns_per_model_part' if parts else 'pipeline_parallel_split_points'}: expected "
            f"layers.0 to layers.{layers - 1} in their order"
        )
    return counts


def divided(layers: int, chunks: int, ends: tuple[int, int] = ENDS) -> tuple[int, ...]:
    """Return the number of layers of each chunk as torchtitan divides them: the first chunks have one more of what is
    left over. A number may be below 1; nothing is checked.

    Args:
        layers: number of layers of the model.
        chunks: number of chunks of all stages together.
        ends: layers that the embedding and the head count as, which the first and the last chunk have fewer; one each
            by default.
    """
    share, more = divmod(layers + sum(ends), chunks)
    found = [share + (chunk < more) for chunk in range(chunks)]
    found[0] -= ends[0]
    found[-1] -= ends[1]
    return tuple(found)
