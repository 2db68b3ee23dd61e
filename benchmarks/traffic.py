"""Traffic that shares a fabric: axes of a strategy on circuits before and after they divide them, and jobs together.

python -m benchmarks.traffic

Before, every axis was priced on all planes (or wavelengths), as if the circuits of the others were not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.collectives.joint.joint_bound import demands_of, joint_bound

from benchmarks.support.measure import parse_no_options
from lightloom.app.api.traffic import traffic
from lightloom.collectives.verify.verifier import verify_joint
from lightloom.core.units import format_time
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.decoder import TransformerSizes, transformer_graph
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import joint_parts, on_divided_channels, simulate, stage_seconds
from lightloom.planning.search.plans import label

GPT3 = TransformerSizes(hidden=12288, layers=96, heads=96, ffn=49152, vocabulary=51200, sequence_length=2048)
CLUSTERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("sip-ocs-1024, 8 planes of 400 Gb/s", "sip-ocs-1024", {}),
    ("sip-ocs-1024, 8 planes of 50 Gb/s", "sip-ocs-1024", {"fabric.bandwidth": "50Gbps"}),
    ("sip-ring-1024, 64 wavelengths of 25 Gb/s", "sip-ring-1024", {}),
)
STRATEGIES = (
    Strategy(64, 16, 1, 1, 64, "none", "none", AUTO, 0),
    Strategy(64, 16, 1, 16, 1024, "none", "none", AUTO, 0),
    Strategy(64, 16, 1, 1, 64, "zero-3", "none", AUTO, 0),
    Strategy(16, 8, 8, 32, 1536, "none", "none", AUTO, 0),
    Strategy(8, 8, 16, 64, 1536, "none", "none", AUTO, 0),
)
JOBS: tuple[tuple[str, dict[str, Any], list[str]], ...] = (
    (
        "dgx-h100-64",
        {},
        ["all-reduce@0-31:nbytes=256MiB,name=nodes 0 to 3", "all-reduce@32-63:nbytes=256MiB,name=nodes 4 to 7"],
    ),
    (
        "dgx-h100-64",
        {"fabric": "ring"},
        [
            "all-reduce@0-62/2:nbytes=256MiB,algorithm=ring,name=even ranks",
            "all-reduce@1-63/2:nbytes=256MiB,algorithm=ring,name=odd ranks",
        ],
    ),
    (
        "dgx-h100-64",
        {"fabric": "torus"},
        [
            "all-to-all@0-62/2:nbytes=64MiB,algorithm=one-stage,name=even ranks",
            "all-to-all@1-63/2:nbytes=64MiB,algorithm=one-stage,name=odd ranks",
        ],
    ),
    (
        "sip-ring-1024",
        {"ranks": 64},
        ["all-reduce@0-31:nbytes=256MiB,name=one arc", "all-reduce@32-63:nbytes=256MiB,name=the other arc"],
    ),
    (
        "sip-ring-1024",
        {"ranks": 64},
        ["all-reduce@0-62/2:nbytes=256MiB,name=even ranks", "all-reduce@1-63/2:nbytes=64MiB,name=odd ranks"],
    ),
)


def strategy_rows(name: str, settings: dict[str, Any]) -> Iterator[str]:
    """A row of the first table for each strategy."""
    on = load_cluster(name, set=settings)
    prices = GroupPrices(on.fabric, on.training)
    job = Job.of(transformer_graph(GPT3, 1, "gpt3-175b"), on.accelerator, on.fabric, on.training, prices)
    for strategy in STRATEGIES:
        before, step = stage_seconds(job, strategy), simulate(job, strategy)
        assert step.division is not None
        parts = joint_parts(on_divided_channels(job, strategy), strategy, step)
        verify_joint(parts, on.fabric)
        bound = joint_bound(demands_of(parts, on.fabric), on.fabric)
        held = ", ".join(f"{axis} {count}" for axis, count in step.division.by_axis().items())
        yield (
            f"| {label(strategy)} | {format_time(before)} | {format_time(step.step_time)} | "
            f"{step.step_time / before - 1:+.0%} | {held} | {format_time(bound.time)} |"
        )


def main() -> None:
    """Print the tables."""
    for title, name, settings in CLUSTERS:
        print(f"\n{title}\n")
        print("| strategy | each axis on all | divided | change | channels of each axis | joint bound |")
        print("| --- | ---: | ---: | ---: | --- | ---: |")
        for row in strategy_rows(name, settings):
            print(row, flush=True)
    print("\n| cluster | job | ranks | algorithm | alone | together | slowdown | channels |")
    print("| --- | --- | --- | --- | ---: | ---: | ---: | ---: |")
    for name, settings, jobs in JOBS:
        result = traffic(jobs, name, set=settings)
        for each in result.jobs:
            job, held = each.alone.job, each.together.channels
            where = f"{name}, {result.cluster.fabric.kind_name} | {job.label} | {job.ranks_text}"
            times = f"{format_time(each.alone.seconds)} | {format_time(each.seconds)} | {each.slowdown:.2f}"
            print(f"| {where} | {each.together.label} | {times} | {held or ''} |", flush=True)


if __name__ == "__main__":
    parse_no_options(__doc__)
    main()
