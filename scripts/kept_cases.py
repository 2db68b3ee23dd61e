"""The cases of :mod:`scripts.kept_results`: commands whose results no refactoring may change.

Each case takes seconds and depends on neither time nor chance: no search is bounded by a clock, and all seeds are
given. Together they reach every kind of fabric, every collective and every command that computes something.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """One command, the files that it reads, and those of its files that are kept."""

    name: str
    """Parts joined by dots; the first part is the file that holds the result."""
    arguments: tuple[str, ...]
    """Of ``lightloom``."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Files that are written before, by their names."""
    inputs: tuple[str, ...] = ()
    """Files of the repository that are copied before."""
    preparations: tuple[tuple[str, ...], ...] = ()
    """Arguments of commands that run before and must succeed; what they print is not kept."""
    kept: tuple[str, ...] = ()
    """Text files that the command writes, kept with what it prints."""

    def summary(self) -> str:
        """Return the command in one line."""
        return shlex.join(["lightloom", *self.arguments])


def command(name: str, line: str, *prepared: str, **fields: object) -> Case:
    """Return a case whose commands are given as lines of a shell; `line` is asked for JSON."""
    preparations = tuple(tuple(shlex.split(text)) for text in prepared)
    return Case(name, (*shlex.split(line), "--json"), preparations=preparations, **fields)  # type: ignore[arg-type]


PLANS = """
gpt2-355m dgx-h100-64 --ranks 16
gpt2-355m dgx-h100-64 --ranks 8 --batch 8
gpt2-355m aws-p5-64 --ranks 16
gpt2-355m dgx-a100-64 --ranks 16
gpt2-355m dgx-b200-64 --ranks 16
gpt2-355m dgx-h100-512 --ranks 16
gpt2-355m a100-1024-two-tier --ranks 16
gpt2-355m h100-512-two-tier --ranks 16
gpt2-355m h100-1024-fat-tree-400g --ranks 16
gpt2-355m b200-1024-fat-tree-800g --ranks 16
gpt2-355m nvl72 --ranks 8
gpt2-355m nvl72-576 --ranks 8
gpt2-355m terarack-64 --ranks 8
gpt2-355m sip-ring-1024 --ranks 8
gpt2-355m sip-ocs-1024 --ranks 8
gpt2-355m optinc-4
gpt2-355m tpu-v4-1024 --ranks 64 --strategy ddp
gpt2-355m tpu-v5p-1024 --ranks 64 --strategy ddp
resnet50 terarack-64 --ranks 8
resnet50 terarack-1024 --ranks 16 --strategy ddp
resnet50 inceptionn-4
hdc dadiannao-100g --ranks 16 --strategy ddp
resnet50 optinc-16 --strategy ddp
alexnet dadiannao-25g --ranks 16
alexnet dadiannao-25g --ranks 16 --set accelerator.memory=4GB
hdc dadiannao-3200g --ranks 4
alexnet-2012 inceptionn-4
vgg16 inceptionn-4
vgg19 terarack-64 --ranks 8
googlenet dadiannao-400g --ranks 4 --set accelerator.memory=4GB
googlenet-plain sip-ocs-1024 --ranks 8
googlenet-2014 dadiannao-800g --ranks 4 --strategy ddp --set accelerator.memory=4GB
inception-v3 dgx-h100-64 --ranks 8
inception-v3-plain nvl72 --ranks 4
resnet101 terarack-64 --ranks 4
resnet152 h100-512-two-tier --ranks 8
resnet50-2015 inceptionn-4 --strategy ddp
resnet101-2015 dadiannao-1600g --ranks 4 --strategy ddp --set accelerator.memory=4GB
resnet152-2015 optinc-4 --strategy ddp
densenet121 terarack-64 --ranks 4 --strategy ddp
hdc inceptionn-4
hdc optinc-4
optinc-llama optinc-16
optinc-llama sip-ring-1024 --ranks 8
transformer-big terarack-64 --ranks 8
transformer-big dgx-a100-64 --ranks 8
gpt3-175b dgx-h100-64 --tp 8 --pp 8 --strategy tensor-pipeline
gpt3-175b a100-1024-two-tier --ranks 64 --tp 8 --pp 8 --global-batch 64 --strategy tensor-pipeline
mixtral-8x7b dgx-h100-64 --ranks 16 --strategy tensor-pipeline
mixtral-8x7b nvl72 --ranks 32 --ep 8
llama2-7b dgx-h100-64 --ranks 8
llama2-7b dgx-h100-64 --ranks 16 --cp 2
llama2-7b sip-ocs-1024 --ranks 16 --tp 4 --pp 2
llama2-7b terarack-64 --ranks 16 --tp 2 --pp 2
llama2-70b dgx-h100-64 --tp 8 --sharding zero-1
llama2-70b nvl72 --ranks 64 --tp 8 --pp 4 --recompute selective --virtual-stages 2
""".strip().splitlines()
"""Model, cluster and options of plans."""
OPTIONS = {
    "batch-max": "gpt2-355m dgx-h100-64 --ranks 8 --batch max",
    "global-batches": "gpt2-355m dgx-h100-64 --ranks 8 --global-batch 64 --global-batch 128",
    "sequence-length": "gpt2-355m dgx-h100-64 --ranks 8 --sequence-length 512",
    "two-clusters": "resnet50 inceptionn-4 --cluster optinc-4",
    "two-ranks": "gpt2-355m dgx-h100-64 --ranks 4 --ranks 8 --strategy ddp",
    "accelerator": "gpt2-355m dgx-h100-64 --ranks 8 --accelerator h100",
    "set": "resnet50 terarack-64 --ranks 8 --set fabric.wavelengths=16 --strategy ddp",
    "paper": "resnet50 terarack-64 --ranks 8 --cost-model paper",
    "paper-fsdp": "gpt2-355m sip-ring-1024 --ranks 8 --cost-model paper --strategy fsdp",
    "no-overlap": "gpt2-355m dgx-h100-64 --ranks 8 --no-overlap",
    "algorithms": "resnet50 terarack-64 --ranks 8 --algorithm ring --algorithm wrht",
    "quantum": "alexnet terarack-64 --ranks 4 --strategy placed --quantum 10us --quantum 100us",
    "placed": "googlenet terarack-64 --ranks 4 --strategy placed",
    "fsdp": "llama2-7b dgx-h100-64 --ranks 16 --strategy fsdp",
    "hybrid": "llama2-7b dgx-h100-64 --ranks 16 --sharding hybrid",
    "zero-2": "llama2-7b dgx-h100-64 --ranks 8 --sharding zero-2",
    "zero-3": "llama2-7b h100-512-two-tier --ranks 16 --sharding zero-3",
    "recompute-full": "llama2-7b dgx-h100-64 --ranks 8 --recompute full",
    "micro-batches": "llama2-7b dgx-h100-64 --ranks 8 --pp 4 --micro-batches 4 --global-batch 32",
    "micro-batch": "llama2-7b dgx-h100-64 --ranks 8 --pp 2 --micro-batch 2 --global-batch 32",
    "sequence-parallel": "llama2-7b dgx-h100-64 --ranks 8 --tp 4 --sequence-parallel",
    "no-sequence-parallel": "llama2-7b dgx-h100-64 --ranks 8 --tp 4 --no-sequence-parallel",
    "int4": "gpt2-355m h100-512-two-tier --ranks 16 --strategy ddp --exchange int4:block=128",
    "exchanges": "resnet50 inceptionn-4 --exchange int8 --exchange topk --exchange sign:feedback",
    "inceptionn-ratio": "alexnet inceptionn-4 --exchange inceptionn:bound=2^-10 --exchange-ratio 4 "
    "--exchange-engine nic",
    "reconfigure": "gpt2-355m sip-ocs-1024 --ranks 8 --reconfigure-in-step",
    "reconfigure-placed": "googlenet sip-ocs-1024 --ranks 4 --strategy placed --reconfigure-in-step",
    "latency-sensitivity": "resnet50 terarack-64 --ranks 8 --strategy ddp --latency-sensitivity",
    "site": "gpt2-355m dgx-h100-64 --ranks 8 --pue 1.2 --electricity '8 ct/kWh' --amortisation '5 years' "
    "--maintenance 0.03 --host-price '$ 50000' --board-price '$ 25000' --host-power 1kW",
    "prices": "resnet50 terarack-64 --ranks 8 --strategy ddp --price 'wdm-engine=$ 120'",
    "fabric-price": "resnet50 terarack-64 --ranks 8 --strategy ddp --fabric-price '$ 1000'",
    "expert-pipeline": "mixtral-8x7b dgx-h100-64 --ranks 16 --ep 8 --pp 2",
    "infeasible": "gpt3-175b dgx-h100-64 --ranks 8 --tp 8",
    "refused-ranks": "gpt2-355m dgx-h100-64 --ranks 1000000",
    "refused-tp": "gpt2-355m dgx-h100-64 --ranks 8 --tp 3",
    "refused-model": "gpt2-355n dgx-h100-64 --ranks 8",
    "refused-set": "gpt2-355m dgx-h100-64 --set fabric.wavelength=3",
    "refused-cluster": "gpt2-355m dgx-h200-64",
    "refused-paper": "gpt2-355m dgx-h100-64 --ranks 8 --cost-model paper --strategy placed",
}
"""Plans with options, by what they show."""


def plans() -> Iterator[Case]:
    """Yield the plans of models of the zoo."""
    for line in PLANS:
        model, cluster, *options = line.split()
        left = [word for word in options if word not in ("--ranks", "--strategy", "--set")]
        words = [word.removeprefix("--").replace(".", "-") for word in left]
        yield command(
            ".".join(["plan", model, cluster, *words]), f"plan {model} --cluster {shlex.join([cluster, *options])}"
        )
    for name, line in OPTIONS.items():
        model, rest = line.split(maxsplit=1)
        yield command(f"plan.option.{name}", f"plan {model} --cluster {rest}")


KINDS = {
    "all-gather": "--nbytes-per-rank",
    "reduce-scatter": "--nbytes-per-rank",
    "all-reduce": "--nbytes",
    "all-to-all": "--nbytes",
    "broadcast": "--nbytes",
    "reduce": "--nbytes",
    "gather": "--nbytes-per-rank",
    "scatter": "--nbytes-per-rank",
    "permute": "--nbytes-per-rank",
    "barrier": "",
    "all-to-all-v": "--sizes zipf:1.2:3 --nbytes",
    "reduce-scatter-v": "--sizes zipf:0.8:5 --nbytes",
}
"""The option that states the size of each collective."""
FABRICS = {
    "wdm-ring": 16,
    "sip-ring": 8,
    "terarack": 8,
    "ring": 8,
    "mesh": 9,
    "torus": 16,
    "switch": 8,
    "ethernet-10g": 4,
    "ethernet-400g": 6,
    "circuit-switch": 8,
    "ocs-136": 8,
    "ocs-320": 6,
    "ocs-384": 4,
    "ocs-measured": 8,
    "optical-averager": 4,
    "two-tier-200g": 16,
    "two-tier-400g": 16,
    "dgx-h100": 16,
    "dgx-h100-superpod": 16,
    "dgx-a100": 16,
    "dgx-b200": 16,
    "aws-p5": 16,
    "gb200-nvl72": 8,
    "gb200-nvl72-racks": 16,
    "fat-tree-400g": 16,
    "fat-tree-800g": 8,
    "tpu-v4": 64,
    "tpu-v4-twisted": 128,
    "tpu-v5p": 64,
    "dadiannao-25g": 16,
    "dadiannao-100g": 4,
    "dadiannao-400g": 4,
    "dadiannao-800g": 4,
    "dadiannao-1600g": 4,
    "dadiannao-3200g": 4,
}
"""Ranks of each fabric of the catalog."""
SETTINGS = {
    "gb200-nvl72-racks": "--set tiers.NVLink.size=8",
    "fat-tree-400g": "--set tiers.leaf.size=8",
}
"""Smaller domains, so that few ranks reach both tiers."""


def collectives() -> Iterator[Case]:
    """Yield every collective on every fabric, all algorithms."""
    for fabric, ranks in FABRICS.items():
        for kind, size in KINDS.items():
            line = f"collective {kind} --fabric {fabric} --ranks {ranks} {size} {'1MB' if size else ''}"
            yield command(f"collective.{kind}.{fabric}.{ranks}", f"{line} {SETTINGS.get(fabric, '')}")


STUDIES = ("dadiannao", "economics", "inceptionn", "optinc", "optree", "sipml")


def studies() -> Iterator[Case]:
    """Yield all studies of papers."""
    for study in STUDIES:
        yield command(f"reproduce.{study}", f"reproduce {study}")


CASES = (*plans(), *collectives(), *studies())
"""All cases."""
if len({case.name for case in CASES}) < len(CASES):
    raise ValueError("two cases have the same name")
