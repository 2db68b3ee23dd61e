"""The strategy that arguments of Megatron-LM pin: degrees, micro-batches, sharding, recomputation."""

from __future__ import annotations

import re
from dataclasses import replace

from lightloom.clusters.settings import StageBlocks
from lightloom.core.errors import ConfigError
from lightloom.model_files.megatron.mixture import is_deepspeed
from lightloom.model_files.megatron.options import Options
from lightloom.planner.search.request import Pins

_FSDP = ("use-megatron-fsdp", "use-custom-fsdp", "use-torch-fsdp2")
_SHARDED = {"no_shard": "none", "optim": "zero-1", "optim_grads": "zero-2", "optim_grads_params": "zero-3"}
_ZERO_STAGES: dict[str | None, str | None] = {"0": "none", "1": "zero-1", "2": "zero-2", "3": "zero-3", None: None}
_DEGREES = {
    "tp": "tensor-model-parallel-size",
    "pp": "pipeline-model-parallel-size",
    "cp": "context-parallel-size",
    "ep": "expert-model-parallel-size",
}


def strategy_pins(options: Options) -> Pins:
    """Return the choices that the arguments state; degrees that a whole command leaves out are 1, Megatron's default.

    Raises:
        ConfigError: choices that contradict each other.
    """
    degrees = {pin: options.count(name) for pin, name in _DEGREES.items()}
    degrees["ep"] = degrees["ep"] or options.count("moe-expert-parallel-size")
    whole = _is_whole(options)
    if whole:
        degrees = {pin: number or 1 for pin, number in degrees.items()}
    flat = degrees["tp"] in (None, 1)
    pins = Pins(
        **degrees,
        micro_batch=options.count("micro-batch-size"),
        sequence_parallel=None if flat else options.flag("sequence-parallel"),
        sharding=_sharding(options),
        recomputation=_recomputation(options),
    )
    options.flag("sequence-parallel")
    return replace(pins, virtual_stages=_virtual_stages(options, degrees["pp"]))


def _is_whole(options: Options) -> bool:
    """Whether what is left out has Megatron's default: the arguments are those of a command, or with a degree."""
    names = (*_DEGREES.values(), "moe-expert-parallel-size")
    return bool(options.program) or any(name in options.given for name in names)


def stage_blocks(options: Options, layers: int) -> StageBlocks | None:
    """Return how Megatron cuts layers into the stages that the arguments state; None where they state none.

    Raises:
        ConfigError: a layout that cannot be read, or that has other layers or numbers of stages.
    """
    stages, layout = options.count(_DEGREES["pp"]) or 1, options.text("pipeline-model-parallel-layout")
    first, last = (options.count(f"decoder-{end}-pipeline-num-layers") for end in ("first", "last"))
    ends = [options.flag(f"account-for-{end}-in-pipeline-split") for end in ("embedding", "loss")]
    if stages == 1:
        return None
    if layout is not None:
        return _layout(options, layout, stages, layers)
    chunks = _virtual_stages(options, stages) or 1
    if any(ends):
        share = (layers + sum(ends)) // stages
        first, last = (share - ends[0], share - ends[1])
    if first is None and last is None:
        return "equal"
    stated = [first, *[None] * (stages - 2), last]
    middle, rest = divmod(layers - (first or 0) - (last or 0), max(stated.count(None), 1))
    blocks = [middle if number is None else number for number in stated]
    if rest or sum(blocks) != layers or any(number < chunks or number % chunks for number in blocks):
        raise ConfigError(
            f"{options.path}: stages of {', '.join(map(str, blocks))} of {layers} layers, {chunks} chunks each: "
            "expected as many layers in each stage between the first and the last, and in each chunk of a stage"
        )
    return tuple(number // chunks for number in blocks) * chunks


def _layout(options: Options, layout: str, stages: int, layers: int) -> tuple[int, ...]:
    """Return the layers of each chunk of a layout: ``Et*3|(tt|)*2tL`` has three, two, two and one.

    Raises:
        ConfigError: another number of stages or layers, or a stage without any.
    """
    chunks = _chunks(layout)
    plain = "|".join(chunks)
    if not re.fullmatch(r"Et+(\|t+)*L", plain) or plain.count("t") != layers or len(chunks) % stages:
        raise ConfigError(
            f"{options.path}: --pipeline-model-parallel-layout {layout}: expected a multiple of {stages} stages, "
            f"divided by |, with {layers} layers t in all and one or more in each, E before and L behind them"
        )
    return tuple(chunk.count("t") for chunk in chunks)


def _chunks(layout: str) -> list[str]:
    """Return the chunks of a layout, with what is repeated in it written out."""
    plain = re.sub(r"[\s,\"']", "", layout)
    for pattern in (r"\(([^()]*)\)\*(\d{1,3})", r"([A-Za-z])\*(\d{1,3})"):
        plain = re.sub(pattern, lambda match: match[1] * int(match[2]), plain)
    return plain.split("|")


def strategy_notes(options: Options, ranks: int | None) -> list[str]:
    """Return what the arguments say of the run that the plan takes from elsewhere."""
    formats = [f"--{name}" for name in ("bf16", "fp16") if options.flag(name)]
    formats += [f"--fp8-format {options.text('fp8-format')}"] if options.flag("fp8-format") else []
    notes = [f"precision: the file says {' '.join(formats)}; the plan takes training.precision"] if formats else []
    if not options.flag("overlap-grad-reduce") and options.program:
        notes.append(
            "overlap of gradients: off in the file; the plan takes training.overlap_gradients "
            "(--set training.overlap_gradients=false)"
        )
    tensor, expert = options.count(_DEGREES["tp"]) or 1, options.count("expert-tensor-parallel-size")
    if expert is not None and expert != tensor:
        notes.append(f"experts over {expert} tensor ranks: the plan splits them over {tensor}, as everything else")
    if options.text("recompute-method") == "block":
        notes.append(
            f"recomputation of {options.text('recompute-num-layers')} layers a stage: the plan recomputes all of them"
        )
    options.text("recompute-num-layers")
    if is_deepspeed(options) and _zero_stage(options) is None:
        notes.append("stage of ZeRO: in the configuration of DeepSpeed, which is not read; plans choose theirs")
    if (options.count("ds-sequence-parallel-size") or 1) > 1:
        notes.append(
            f"slices of the sequence over {options.count('ds-sequence-parallel-size')} ranks (DeepSpeed): none here"
        )
    if ranks is not None:
        notes.append(f"ranks: the file starts {ranks:,}; the plan takes those of the cluster")
    return notes


def _sharding(options: Options) -> str | None:
    sharded = [name for name in _FSDP if options.flag(name)]
    optimizer = options.flag("use-distributed-optimizer")
    strategy = options.text("data-parallel-sharding-strategy")
    instances = options.count("num-distributed-optimizer-instances") or 1
    if sharded:
        if strategy is not None and strategy not in _SHARDED:
            raise ConfigError(
                f"{options.path}: --data-parallel-sharding-strategy {strategy}: expected {', '.join(_SHARDED)}"
            )
        pinned = _SHARDED[strategy] if strategy else "zero-3" if sharded[0] == "use-torch-fsdp2" else "none"
        return "hybrid" if instances > 1 and pinned == "zero-3" else pinned
    if is_deepspeed(options):
        return _ZERO_STAGES[_zero_stage(options)]
    if optimizer:
        return "zero-1"
    return "none" if _is_whole(options) else None


def _zero_stage(options: Options) -> str | None:
    """Return the stage of ZeRO that arguments of DeepSpeed state; None where its configuration does.

    Raises:
        ConfigError: no stage.
    """
    stage = options.text("zero-stage")
    if stage not in _ZERO_STAGES:
        raise ConfigError(f"{options.path}: --zero-stage {stage}: expected 0, 1, 2 or 3")
    return stage


def _recomputation(options: Options) -> str | None:
    granularity = options.text("recompute-granularity")
    options.text("recompute-modules")
    if options.flag("recompute-activations"):
        granularity = "selective"
    if options.flag("checkpoint-activations") or options.text("activations-checkpoint-method"):
        granularity = "full"
    if granularity not in (None, "full", "selective"):
        raise ConfigError(f"{options.path}: --recompute-granularity {granularity}: expected full or selective")
    return granularity or ("none" if _is_whole(options) else None)


def _virtual_stages(options: Options, stages: int | None) -> int | None:
    layout = options.text("pipeline-model-parallel-layout")
    if layout is not None:
        return max(len(_chunks(layout)) // (stages or 1), 1)
    chunks = options.count("num-virtual-stages-per-pipeline-rank")
    layers = options.count("num-layers-per-virtual-pipeline-stage")
    if chunks is not None or layers is None:
        return chunks or (1 if _is_whole(options) else None)
    total = options.count("num-layers")
    if total is None:
        return None
    if total % ((stages or 1) * layers):
        raise ConfigError(
            f"{options.path}: --num-layers-per-virtual-pipeline-stage {layers}: expected a divisor of the "
            f"{total} / {stages} layers of a stage"
        )
    return total // ((stages or 1) * layers)
