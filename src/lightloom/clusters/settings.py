"""How a job trains, as far as time, bytes and memory depend on it; a cluster file may set its own defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lightloom.accelerators.base import Precision
from lightloom.core.fields import Config, Count, Size

Attention = Literal["flash", "unfused"]
"""How attention is computed: in one kernel that never stores its scores, or as products with a softmax between."""

StageBlocks = Literal["balanced", "equal"] | tuple[Count, ...]
"""How blocks fall to pipeline stages: so that the busiest stage has the least work, or the same number to each; or the
blocks of each stage, of each of its chunks where stages interleave, in the order of the model. Other numbers of stages
than are stated there are balanced."""


class TrainingSettings(Config):
    """Batch, number formats, and the sizes at which gradients and parameters are grouped."""

    batch_per_rank: Count = 32
    """Samples that one rank works on in a step."""
    precision: Precision = "bf16"
    """Number format of the arithmetic and of activations."""
    attention: Attention = "flash"
    """How attention is computed; it matters on accelerators with a kernel model."""
    stage_blocks: StageBlocks = "balanced"
    """How blocks fall to pipeline stages; Megatron-LM gives the same number to each where nothing else is stated."""
    gradient_bytes: Count = 4
    """Bytes of one gradient element that data parallelism exchanges (DDP keeps the parameters' float32)."""
    sharded_parameter_bytes: Count = 2
    """Bytes of one parameter that sharded data parallelism gathers (FSDP2's ``param_dtype``, bfloat16)."""
    sharded_gradient_bytes: Count = 2
    """Bytes of one gradient element that sharded data parallelism reduces (FSDP2's ``reduce_dtype``, bfloat16)."""
    stored_parameter_bytes: Count = 4
    """Bytes of one parameter as the optimizer keeps it (float32)."""
    optimizer_state_bytes: Annotated[int, Field(ge=0, strict=True)] = 8
    """Bytes of optimizer state for one parameter (Adam: two float32 moments)."""
    optimizer_traffic_bytes: Annotated[int, Field(ge=0, strict=True)] = 28
    """Bytes an update moves for one parameter (Adam in float32: reads parameter, gradient and two moments, writes all
    but the gradient)."""
    zero_2_exchange: Literal["step", "micro-batch"] = "step"
    """How often replicas that shard gradients but not parameters (ZeRO-2) gather parameters and reduce gradients: once
    a step, as torchtitan's pipelines and Megatron-FSDP do, or unit by unit in every micro-batch, as FSDP with
    ``reshard_after_forward=False`` does (without stages; an assumption where it is not stated)."""
    overlap_gradients: bool = True
    """Whether gradients that are exchanged once a step go block by block while the last backward pass of a stage
    computes, where that is faster than afterwards: ``--overlap-grad-reduce`` of Megatron-LM, off by default there, and
    what PyTorch's DDP and FSDP always do. On by default, an assumption."""
    bucket_size: Size = 25 * 2.0**20
    """Bytes after which a gradient bucket is closed (``bucket_cap_mb=25``, the default of PyTorch's DDP)."""
    first_bucket_size: Size = 2.0**20
    """The same for the first bucket (1 MiB in PyTorch's DDP), so that communication starts early."""
    unit_parameters: Count = 20_000_000
    """Parameters after which a unit of sharded data parallelism is closed; an assumption, PyTorch leaves it to the
    user."""
    prefetch: Annotated[int, Field(ge=0, strict=True)] = 1
    """Units whose parameters may be gathered ahead of the one that computes (FSDP2 prefetches one)."""
