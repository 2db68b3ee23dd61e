"""The page ``docs/accuracy.md``: how near predictions are, and the limits that they keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lightloom.planning.calibration.accuracy import Accuracy
from lightloom.planning.calibration.collectives import MeasuredCollective
from lightloom.planning.calibration.rows import MeasuredStep

_INTRODUCTION = f"""# Accuracy

How near predicted training steps are to steps that others measured. `python -m benchmarks.accuracy` writes this page;
it needs the measured tables, in the folder that `LIGHTLOOM_MEASURED` names. No row is left out. An error is
(predicted - measured) / measured, and means and medians are those of its absolute value. To judge
[a table of your own](#tables-of-your-own), or to calibrate on it:

    lightloom accuracy ROWS.csv
    lightloom calibrate ROWS.csv --accelerator a100 --out my-a100.yaml
    lightloom accuracy OTHERS.csv --calibration my-a100.yaml
    lightloom calibrate nccl-tests.txt --accelerator a100

![Predicted against measured steps, priors only](pictures/accuracy.png)

A row becomes a job of the planner, in which nothing is left open, and is priced by the functions that price `lightloom
plan`: a plan with the row's choices pinned takes exactly as long (a test holds fourteen layouts to it). Priors
come from data sheets and publications where there are any, and are labelled
assumptions where not; each states which in the file that `calibrate` writes. No prior is a result of a fit, but these
tables were in view when terms were chosen and counted: the traffic of the loss, the latencies of collectives, and
`gemm_depth`, for which 200, 400 and 500 were tried on them. Only tables that nobody looked at can judge the priors
without reserve. The tables are vTrain's (Megatron-DeepSpeed), llm-foundry's and Table 1
of Narayanan et al. (SC 2021), which states neither micro-batch nor virtual stages: the fastest choice is assumed.

The 90 % intervals join what the parameters leave open with how far rows scatter around the best model. Rows of one
model size share what is wrong about it and count as one for the first; the second is read off rows that a fit had not
seen. A calibration on one training program says less about another program than its intervals suggest.

## Tables of your own

A table is a CSV file with these columns and one training step a row:

    {",".join(MeasuredStep.model_fields)}

`accelerator` is a name of the catalog or a YAML file, `memory_bandwidth_gbs` is in GB/s, and
`node_network_gbps` is the bandwidth of a node's network each way in Gb/s, all ports together. `global_batch` counts the
sequences of a step, `micro_batch` those of a micro-batch. `sharding` is `none`, `zero-1`, `zero-2`, `zero-3` or
`hybrid`, `recomputation` is `none`, `selective` or `full`, `sequence_parallel` is `yes` or `no`, and `attention` is
`unfused` or `flash`. `gradient_bytes` are the bytes of one element of a gradient on the wire, and `step_s` are the
measured seconds. Where `virtual_stages` or `micro_batch` is empty, the fastest choice is assumed.

Collectives come as `{",".join(MeasuredCollective.model_fields)}`, or as nccl-tests prints them.
"""


@dataclass(frozen=True)
class Check:
    """One figure and its limit."""

    what: str
    value: float
    limit: float
    unit: str = "%"

    @property
    def holds(self) -> bool:
        return self.value <= self.limit

    def line(self) -> str:
        scale = 100 if self.unit == "%" else 1
        value, limit = (f"{number * scale:.1f} {self.unit}" for number in (self.value, self.limit))
        return f"| {self.what} | {value} | {limit} | {'holds' if self.holds else 'does not hold'} |"


def page(judged: Sequence[Accuracy], checks: Sequence[Check]) -> str:
    """The page: limits first, then every table with its worst rows."""
    lines = [
        _INTRODUCTION,
        "## Tables",
        "",
        "| table | parameters | rows | mean | median | bias | nine of ten below | inside | half-width | ranks |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(_table_line(entry) for entry in judged),
        "",
        "`inside` are rows in their 90 % interval, whose median half-width follows. `ranks` is Spearman's coefficient",
        "of tokens per second and GPU within models of at least five rows.",
        "",
        "## Rows furthest off",
        "",
        "| table | parameters | row | measured | predicted | error |",
        "| --- | --- | --- | ---: | ---: | ---: |",
        *(line for entry in judged for line in _worst_lines(entry)),
        "",
        "## Limits",
        "",
        "| figure | reached | limit | |",
        "| --- | ---: | ---: | --- |",
        *(check.line() for check in checks),
        "",
    ]
    return "\n".join(lines)


def _table_line(entry: Accuracy) -> str:
    scores = entry.scores
    agreement = "" if scores.rank_agreement is None else f"{scores.rank_agreement:.2f}"
    return (
        f"| `{entry.steps.name}` | {entry.basis} | {scores.rows} | {scores.mean:.1%} | {scores.median:.1%} | "
        f"{scores.bias:+.1%} | {scores.percentile_90:.1%} | {scores.coverage:.0%} | {scores.half_width:.1%} | "
        f"{agreement} |"
    )


def _worst_lines(entry: Accuracy) -> Iterator[str]:
    for row in entry.worst(3):
        yield (
            f"| `{entry.steps.name}` | {entry.basis} | {row['row']} | {row['measured_s']:.4g} s | "
            f"{row['predicted_s']:.4g} s | {row['error']:+.1%} |"
        )
