"""Kinds and names of plans by what is chosen."""

from __future__ import annotations

from lightloom.core.units import format_time
from lightloom.parallelism.sharding import KIND_OF_SHARDING
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.pricing.placed_space import PlacedChoice


def kind_of(choice: Strategy | PlacedChoice) -> str:
    """One of :data:`KINDS`."""
    if isinstance(choice, PlacedChoice):
        return "placed"
    return KIND_OF_SHARDING[choice.sharding] if choice.plain else "tensor-pipeline"


def label(choice: Strategy | PlacedChoice) -> str:
    """Degrees in a few words, and what is not the default."""
    if isinstance(choice, PlacedChoice):
        parts = ["placed", f"k {choice.k}", f"l {choice.l}"]
        if choice.k > 1:
            parts += [f"τ {format_time(choice.quantum)}", f"at most {choice.most_exchanging} read all"]
        parts += [f"{choice.micro_batches} micro-batches"] if choice.micro_batches > 1 else []
        parts += ["recomputing"] if choice.recomputation == "full" else []
    else:
        sizes = f" of {choice.micro_batch}" if choice.micro_batch else ""
        degrees = (("dp", choice.dp), ("tp", choice.tp), ("pp", choice.pp), ("cp", choice.cp), ("ep", choice.ep))
        parts = [f"{name} {degree}" for name, degree in degrees if degree > 1 or name == "dp"]
        parts += [
            "sequence" if choice.sequence_parallel else "",
            f"{choice.virtual_stages} chunks a stage" if choice.virtual_stages > 1 else "",
            f"{choice.micro_batches} micro-batches{sizes}" if choice.micro_batches > 1 else "",
            KIND_OF_SHARDING.get(choice.sharding, choice.sharding) if choice.replicas > 1 else "",
            {"full": "recomputing", "selective": "recomputing attention"}.get(choice.recomputation, ""),
        ]
    return " · ".join(filter(None, parts))
