"""The cases of :mod:`scripts.kept_results`: commands whose results no refactoring may change.

Each case takes seconds and depends on neither time nor chance: no search is bounded by a clock, and all seeds are
given. Together they reach every kind of fabric, every collective and every command that computes something.
"""

from __future__ import annotations

import json
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
    """Files of the repository that are copied before; those that end in .xz are unpacked."""
    preparations: tuple[tuple[str, ...], ...] = ()
    """Arguments of commands that run before and must succeed; ``>`` and a name put what they print into a file."""
    kept: tuple[str, ...] = ()
    """Patterns of the files that the command writes and that are kept with what it prints."""
    expression: str = ""
    """Expression of Python that is evaluated instead of a command; ``ll`` is lightloom."""
    needs: str = ""
    """Environment variable without which the case is left out."""

    def summary(self) -> str:
        """Return the command in one line."""
        return self.expression or shlex.join(["lightloom", *self.arguments])


def command(name: str, line: str, *prepared: str, **fields: object) -> Case:
    """Return a case whose commands are given as lines of a shell; `line` is asked for JSON, a plan without changed
    questions, unless it says ``--what-if``."""
    line = line.replace("plan ", "plan --no-what-if ", 1) if line.startswith("plan ") else line
    preparations = tuple(tuple(shlex.split(text)) for text in prepared)
    return Case(name, (*shlex.split(line), "--json"), preparations=preparations, **fields)  # type: ignore[arg-type]


INPUTS = "tests/kept_results/inputs"
"""Folder of the models that are no text."""
PLANS = """
gpt2-355m dgx-h100-64 --ranks 16
gpt2-355m dgx-h100-64 --ranks 8 --batch 8
gpt2-355m aws-p5-64 --ranks 16
gpt2-355m dgx-a100-64 --ranks 16
gpt2-355m dgx-b200-64 --ranks 16
gpt2-355m dgx-h100-512 --ranks 16
gpt2-355m a100-1024-two-tier --ranks 16
gpt2-355m h100-512-two-tier --ranks 16
gpt2-355m h100-1024-no-nvlink-400g --ranks 16
gpt2-355m b200-1024-no-nvlink-800g --ranks 16
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
llama2-70b dgx-h100-64 --tp 8 --pin sharding=zero-1
llama2-70b nvl72 --ranks 64 --tp 8 --pp 4 --pin recompute=selective --pin virtual_stages=2
""".strip().splitlines()
"""Model, cluster and options of plans."""
OPTIONS = {
    "batch-max": "gpt2-355m dgx-h100-64 --ranks 8 --batch max",
    "global-batches": "gpt2-355m dgx-h100-64 --ranks 8 --global-batch 64 --global-batch 128",
    "sequence-length": "gpt2-355m dgx-h100-64 --ranks 8 --sequence-length 512",
    "what-if": "gpt2-355m dgx-h100-64 --ranks 16 --what-if",
    "what-if-optical": "gpt2-355m terarack-64 --ranks 8 --what-if",
    "vs": "gpt2-355m dgx-h100-64 --ranks 16 --vs inceptionn-4",
    "two-clusters": "resnet50 inceptionn-4 --cluster optinc-4",
    "two-ranks": "gpt2-355m dgx-h100-64 --ranks 4 --ranks 8 --strategy ddp",
    "accelerator": "gpt2-355m dgx-h100-64 --ranks 8 --accelerator h100",
    "set": "resnet50 terarack-64 --ranks 8 --set fabric.wavelengths=16 --strategy ddp",
    "paper": "resnet50 terarack-64 --ranks 8 --cost-model paper",
    "paper-fsdp": "gpt2-355m sip-ring-1024 --ranks 8 --cost-model paper --strategy fsdp",
    "no-overlap": "gpt2-355m dgx-h100-64 --ranks 8 --pin overlap=no",
    "algorithms": "resnet50 terarack-64 --ranks 8 --algorithm ring --algorithm wrht",
    "quantum": "alexnet terarack-64 --ranks 4 --strategy placed --pin quantum=10us --pin quantum=100us",
    "placed": "googlenet terarack-64 --ranks 4 --strategy placed",
    "fsdp": "llama2-7b dgx-h100-64 --ranks 16 --strategy fsdp",
    "hybrid": "llama2-7b dgx-h100-64 --ranks 16 --pin sharding=hybrid",
    "zero-2": "llama2-7b dgx-h100-64 --ranks 8 --pin sharding=zero-2",
    "zero-3": "llama2-7b h100-512-two-tier --ranks 16 --pin sharding=zero-3",
    "recompute-full": "llama2-7b dgx-h100-64 --ranks 8 --pin recompute=full",
    "micro-batches": "llama2-7b dgx-h100-64 --ranks 8 --pp 4 --pin micro_batches=4 --global-batch 32",
    "micro-batch": "llama2-7b dgx-h100-64 --ranks 8 --pp 2 --pin micro_batch=2 --global-batch 32",
    "sequence-parallel": "llama2-7b dgx-h100-64 --ranks 8 --tp 4 --pin sequence_parallel=yes",
    "no-sequence-parallel": "llama2-7b dgx-h100-64 --ranks 8 --tp 4 --pin sequence_parallel=no",
    "int4": "gpt2-355m h100-512-two-tier --ranks 16 --strategy ddp --exchange int4:block=128",
    "exchanges": "resnet50 inceptionn-4 --exchange int8 --exchange topk --exchange sign:feedback",
    "inceptionn-ratio": "alexnet inceptionn-4 --exchange inceptionn:bound=2^-10 --exchange-ratio 4 "
    "--exchange-engine nic",
    "reconfigure": "gpt2-355m sip-ocs-1024 --ranks 8 --reconfigure-in-step",
    "reconfigure-placed": "googlenet sip-ocs-1024 --ranks 4 --strategy placed --reconfigure-in-step",
    "latency-sensitivity": "resnet50 terarack-64 --ranks 8 --strategy ddp --explain",
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


COLLECTIVES = {
    "sizes": (
        "wdm-ring --ranks 16",
        "sip-ring --ranks 8 --set wavelengths=16",
        "ring --ranks 6",
        "torus --ranks 12",
        "circuit-switch --ranks 12",
        "dgx-h100 --ranks 24",
    ),
    "paper": (
        "wdm-ring --ranks 16 --cost-model paper",
        "terarack --ranks 12 --set wavelengths=4 --cost-model paper",
        "ring --ranks 8 --cost-model paper",
        "mesh --ranks 16 --cost-model paper",
        "circuit-switch --ranks 8 --cost-model paper",
    ),
}
"""Fabrics of collectives of two sizes, and of collectives in the paper's cost model."""
SINGLE = {
    "wavelengths": "all-gather --fabric wdm-ring --ranks 32 --set wavelengths=8 --nbytes-per-rank 10kB",
    "conversion": "all-gather --fabric wdm-ring --ranks 16 --set wavelengths=4 --nbytes-per-rank 10kB "
    "--set conversion_time=1us",
    "ranks-64": "all-reduce --fabric wdm-ring --ranks 64 --nbytes 1MB",
    "ranks-100": "all-gather --fabric terarack --ranks 100 --nbytes-per-rank 10kB",
    "optree": "all-gather --fabric wdm-ring --ranks 128 --algorithm optree --nbytes-per-rank 1MB",
    "wrht": "all-reduce --fabric wdm-ring --ranks 81 --algorithm wrht --set wavelengths=4 --nbytes 100MB",
    "serpentine": "all-gather --fabric wdm-ring --ranks 32 --algorithm serpentine --set multicast_taps=31 --nbytes 1MB",
    "synthesized": "all-to-all --fabric sip-ring --ranks 16 --algorithm synthesized --nbytes 16MiB",
    "synthesized-tiers": "all-reduce --fabric dgx-h100-superpod --ranks 64 --algorithm synthesized --nbytes 1GiB",
    "hierarchical": "all-reduce --fabric two-tier-400g --ranks 64 --algorithm hierarchical --nbytes 64MiB",
    "double-binary-tree": "all-reduce --fabric aws-p5 --ranks 32 --algorithm double-binary-tree --nbytes 64KiB",
    "mesh-broadcast": "all-gather --fabric mesh --ranks 16 --algorithm mesh-broadcast --nbytes 1MB",
    "mesh-broadcast-both-axes": "all-gather --fabric mesh --ranks 16 --algorithm mesh-broadcast-both-axes --nbytes 1MB",
    "averager-16": "all-reduce --fabric optical-averager --ranks 16 --nbytes 64MiB",
    "averager-reducer": "all-reduce --fabric optical-averager --ranks 4 --nbytes 64MiB "
    "--set averaging.reducer=digit-sum-nrz",
    "shift": "permute --fabric wdm-ring --ranks 16 --permutation shift:5 --nbytes 16MB",
    "reverse": "permute --fabric torus --ranks 16 --permutation reverse --nbytes 16MB",
    "listed": "permute --fabric circuit-switch --ranks 6 --permutation 1,0,3,2,5,4 --nbytes 6MB",
    "zipf": "all-to-all-v --fabric dgx-h100 --ranks 16 --sizes zipf:2:1 --nbytes 64MB",
    "zipf-scatter": "reduce-scatter-v --fabric wdm-ring --ranks 16 --sizes zipf:1.5 --nbytes 64MB",
    "sizes-of-a-file": "all-to-all-v --fabric sip-ring --ranks 4 --sizes traffic.csv",
    "sizes-on-switches": "all-to-all-v --fabric ocs-320 --ranks 4 --sizes traffic.csv",
    "site": "all-reduce --fabric dgx-h100 --ranks 16 --nbytes 1MB --site pue=1.1 --site electricity='8 ct/kWh' "
    "--site amortisation='5 years' --site maintenance=0.1",
    "taper": "all-to-all --fabric two-tier-400g --ranks 32 --set tiers.network.taper=4 --nbytes 1MB",
    "twisted": "all-to-all --fabric tpu-v4-twisted --ranks 128 --nbytes 8MB --algorithm one-stage",
    "rows": "all-gather --fabric mesh --ranks 12 --set rows=2 --nbytes 1MB",
    "two-fibres": "all-gather --fabric wdm-ring --ranks 16 --set fibres=2 --set transceivers=16 --nbytes 1MB",
    "degree": "all-to-all --fabric circuit-switch --ranks 16 --set degree=4 --nbytes 16MB",
    "star": "all-reduce --fabric star.csv --ranks 6 --nbytes 1MB",
    "star-gather": "all-gather --fabric star.yaml --ranks 6 --nbytes 1MB",
    "star-all-to-all": "all-to-all --fabric star.yaml --ranks 6 --nbytes 1MB",
    "tiers": "all-reduce --fabric tiers.yaml --ranks 16 --nbytes 1MB",
    "tiers-all-to-all": "all-to-all --fabric tiers.yaml --ranks 16 --nbytes 1MB",
    "tiers-permute": "permute --fabric tiers.yaml --ranks 16 --permutation shift:3 --nbytes 1MB",
    "damaged": "all-gather --fabric damaged.yaml --ranks 11 --nbytes 1MB",
    "damaged-all-reduce": "all-reduce --fabric damaged.yaml --ranks 11 --nbytes 1MB",
    "refused-algorithm": "all-gather --fabric ring --ranks 8 --nbytes 1MB --algorithm optree",
    "refused-unknown": "all-gather --fabric ring --ranks 8 --nbytes 1MB --algorithm rings",
    "refused-kind": "allgather --fabric ring --ranks 8 --nbytes 1MB",
    "refused-size": "all-gather --fabric ring --ranks 8 --nbytes 1XB",
    "refused-field": "all-gather --fabric ring --ranks 8 --nbytes 1MB --set wavelengths=8",
    "refused-ranks": "all-gather --fabric gb200-nvl72 --ranks 73 --nbytes 1MB",
    "refused-permutation": "permute --fabric ring --ranks 4 --nbytes 1MB --permutation 1,1,2,3",
}
"""Collectives of one setting each."""
FILES = {
    "traffic.csv": "0,5e6,1e6,2e6\n1e6,0,4e6,0\n3e5,2e6,0,7e6\n1e6,1e6,1e6,0\n",
    "star.csv": "source,target,bandwidth,latency\n"
    + "".join(f"{rank},hub,{400 if rank else 100}Gbps,1us\n" for rank in range(6)),
    "star.yaml": "kind: graph\nedges: star.csv\nhop_latency: 2us\n",
    "tiers.yaml": "kind: tiers\ntiers:\n"
    "  - {name: package, shape: full-mesh, size: 4, bandwidth: 50GB/s, latency: 50ns}\n"
    "  - {name: board, shape: ring, size: 2, bandwidth: 25GB/s, latency: 200ns}\n"
    "  - {name: network, shape: switch, ports: 2, bandwidth: 100Gbps, latency: 500ns, taper: 2}\n",
    "damaged.yaml": "kind: damaged-wdm-ring\nwavelengths: 4\nwavelength_bandwidth: 50Gbps\nconversion_time: 1us\n"
    "failures: [wavelength:3, node:5, 'cable:7']\n",
}
"""Files of fabrics and of traffic that cases may read."""
TWO_SIZES = ("4KiB", "64MiB")


def variants_of_collectives() -> Iterator[Case]:
    """Yield collectives of other sizes, in the other cost model, and with other fields of their fabrics."""
    for setting, fabrics in COLLECTIVES.items():
        for line in fabrics:
            fabric, _, ranks, *_ = line.split()
            for kind in ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", "permute"):
                for size in TWO_SIZES if setting == "sizes" else ("1MB",):
                    name = f"collective.{setting}.{kind}.{fabric}.{ranks}.{size}"
                    yield command(name, f"collective {kind} --fabric {line} --nbytes {size}")
    for name, line in SINGLE.items():
        yield command(f"collective.single.{name}", f"collective {line}", texts=FILES)


MODEL_FILES = {
    "config.json": json.dumps(
        {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "hidden_size": 1024,
            "intermediate_size": 3584,
            "num_hidden_layers": 4,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "vocab_size": 16384,
            "max_position_embeddings": 2048,
        }
    ),
    "run.sh": """#!/bin/bash
LAYERS=${LAYERS:-8}; GPUS=8
ARGS=(--num-layers $LAYERS --hidden-size 1024 --num-attention-heads 16 --seq-length 1024)
if [ "$EXPERTS" == "yes" ]; then ARGS+=(--num-experts 8); fi
torchrun --nproc_per_node $GPUS pretrain_gpt.py "${ARGS[@]}" --max-position-embeddings 1024 \\
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel \\
    --micro-batch-size 1 --global-batch-size 16 --vocab-size 32000 --bf16 --use-distributed-optimizer
""",
    "job.toml": """[model]
name = "llama3"
flavor = "debugmodel"
[training]
local_batch_size = 2
seq_len = 256
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "full"
""",
    "work.txt": """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 all_gpus: 32 pp_comm 4096
3
attention -1 752000 ALLREDUCE 20971520 752000 ALLREDUCE 20971520 1 NONE 0 100
mlp -1 750000 ALLTOALL_EP 4096 750000 NONE 0 1 REDUCESCATTER 8192 100
head -1 750000 NONE 0 750000 NONE 0 1 ALLREDUCE 8192000 100
""",
}
"""Models in the forms of other programs, by the names of their files."""
MEGATRON = (
    "pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 512 "
    "--max-position-embeddings 512 --swiglu --micro-batch-size 2 --global-batch-size 32 --vocab-size 8000"
)
CLUSTER_FILE = "examples/cluster.yaml"
FORMS = {
    "transformers": "plan config.json --cluster dgx-h100-64 --ranks 8",
    "script": "plan run.sh --cluster dgx-h100-64 --ranks 8",
    "script-defined": "plan run.sh --cluster dgx-h100-64 --ranks 8 --define LAYERS=4",
    "script-model-only": "plan run.sh --cluster dgx-h100-64 --ranks 8 --model-only",
    "shell-line": f"plan '{MEGATRON}' --cluster h100-512-two-tier --ranks 8",
    "torchtitan": "plan job.toml --cluster dgx-h100-64 --ranks 8",
    "layers": "plan work.txt --cluster dgx-h100-64 --ranks 32 --measured-on unscaled",
    "factory": "plan my_transformer.py:build --cluster cluster.yaml --ranks 8",
    "cluster-file": "plan hdc --cluster cluster.yaml --ranks 4",
    "onnx": "plan model.onnx --cluster terarack-64 --ranks 4 --batch 4",
    "trace": "plan step.json --cluster dgx-h100-64 --ranks 4",
    "refused-kind": "plan traffic.csv --cluster dgx-h100-64 --ranks 8",
}
"""Plans of files, which lie beside."""
EXPORTS = {
    "graph": ("plan hdc --cluster inceptionn-4 --export graph.json", ("graph.json",)),
    "megatron": (
        "plan gpt2-355m --cluster dgx-h100-64 --ranks 8 --tp 2 --pp 2 --export run.sh",
        ("run.sh",),
    ),
    "torchtitan": ("plan llama2-7b --cluster dgx-h100-64 --ranks 8 --tp 2 --export job.toml", ("job.toml",)),
    "timeline": ("plan hdc --cluster inceptionn-4 --strategy ddp --trace trace.json", ("trace.json",)),
    "chakra": ("plan hdc --cluster inceptionn-4 --strategy ddp --export step", ("step/**/*",)),
}
"""Plans that write files, and the files."""


def plans_of_files() -> Iterator[Case]:
    """Yield plans of models in files, plans that write files, and comparisons of plans."""
    inputs = ("examples/my_transformer.py", CLUSTER_FILE, f"{INPUTS}/model.onnx", f"{INPUTS}/step.json.xz")
    for name, line in FORMS.items():
        yield command(f"plan.file.{name}", line, texts=FILES | MODEL_FILES, inputs=inputs)
    for name, (line, kept) in EXPORTS.items():
        yield command(f"plan.export.{name}", line, kept=kept)
    plan = "plan hdc --cluster inceptionn-4 --no-what-if --json"
    for name, options in {"codec": "--exchange int8", "batch": "--batch 8", "ranks": "--ranks 2"}.items():
        yield command(f"compare.{name}", "compare a.json b.json", f"{plan} > a.json", f"{plan} {options} > b.json")


NETWORK = "onn build --set evaluations=20000 --out net.npz --servers"
AVERAGERS = {
    "build.2.2": f"{NETWORK} 2 --bits 2",
    "build.2.4": f"{NETWORK} 2 --bits 4",
    "build.4.4": f"{NETWORK} 4 --bits 4",
    "build.4.8": f"{NETWORK} 4 --bits 8",
    "build.8.4": f"{NETWORK} 8 --bits 4",
    "build.8.8": f"{NETWORK} 8 --bits 8",
    "build.16.4": f"{NETWORK} 16 --bits 4",
    "build.clipped": f"{NETWORK} 4 --bits 8 --set nonlinearity=clipped",
    "build.noise": f"{NETWORK} 4 --bits 8 --noise 5e-3 --set nonlinearity=clipped",
    "build.half-up": f"{NETWORK} 4 --bits 4 --set rounding=half-up",
    "build.decimals": f"{NETWORK} 4 --bits 4 --set carries_decimals=true",
    "build.inputs": f"{NETWORK} 4 --bits 8 --set inputs=2",
    "build.cascade": f"{NETWORK} 2 --bits 4 --cascade 3 --set tuples=20000",
    "build.tolerate": f"{NETWORK} 2 --bits 4 --tolerate phase-error=3e-3,coupler-error=1e-2,power=3mW,loss=0.1dB",
    "build.refused": f"{NETWORK} 4 --bits 40",
}
"""Averagers that are constructed."""
QUICK = "--draws 3 --set words=2000 --set parts=false"
OF_NETWORK = {
    "verify": "onn build net.npz",
    "verify.noise": "onn build net.npz --noise 1e-2",
    "map": "onn map net.npz --units",
    "map.svd": "onn map net.npz --set form=svd --set mesh=triangular",
    "map.compact": "onn map net.npz --set form=compact --set components=true --units --set gains=common",
    "disturb": "onn map net.npz --study disturb --set phase_error=3e-3 --draws 4 --set samples=2000",
    "disturb.units": "onn map net.npz --study disturb --set coupler_error=1e-2 --set loss=0.1 --units "
    "--set correct=true --draws 3 --set samples=1000",
    "disturb.sweep": "onn map net.npz --study disturb --sweep phase-error=1e-3..1e-1:3 --draws 3 --set samples=1000",
    "chip": "onn map net.npz --study chip",
    "chip.components": "onn map net.npz --study chip --set components=true --set form=svd --set pitch=30",
    "calibrate": "onn map net.npz --study calibrate --set measured_settings=60",
    "link": f"onn link net.npz {QUICK}",
    "link.power": "onn link net.npz --set full_scale=1mW --draws 3 --set words=2000",
    "link.optical": f"onn link net.npz --set gain=optical --set noise_figure=6 {QUICK}",
    "link.intensity": f"onn link net.npz --set modulation=intensity {QUICK}",
    "link.ideal": f"onn link net.npz --set ideal=true --set phase_error=3e-3 --set coupler_error=1e-2 {QUICK}",
    "link.levels": f"onn link net.npz --set calibration=levels --set loss=0.2 --set crosstalk=0.01 {QUICK}",
    "link.rows": f"onn link net.npz --set calibration=rows --set unit=clip {QUICK}",
    "link.sweep": "onn link net.npz --sweep full-scale=0.1mW..10mW:3 --draws 2 --set words=1000 --set parts=false",
    "link.phase-lock": f"onn link net.npz --set phase_lock=0.1rad --seed 3 {QUICK}",
    "link.refused": "onn link net.npz --set gain=none",
}
"""What is done with the network that 2 servers of 4 bits take."""
OTHER_AVERAGERS = {
    "map.switch": "onn map --switch 2,0,3,1",
    "calibrate.random": "onn map --study calibrate --set modes=4 --set chips=2 --set measured_settings=60",
    "calibrate.aging": "onn map --study calibrate --set modes=4 --set aging=0.02 --set measured_settings=60 --seed 2",
    "train": "onn train --servers 2 --bits 2 --layers 1-8-1 --set form=free --set epochs=20 --out trained.npz",
    "reducers.4": "onn build --reducers --servers 4 --set draws=50",
    "reducers.8": "onn build --reducers --servers 8 --bits 4 --set draws=20",
    "reducers.16": "onn build --reducers --servers 16 --set draws=20 --set pair=row-gain-network,reducer-asic",
    "reducers.refused": "onn build --reducers --servers 40",
}
"""Averagers without a network in a file."""


def averagers() -> Iterator[Case]:
    """Yield averaging networks and the links through them."""
    for name, line in AVERAGERS.items():
        yield command(f"onn.{name}", line)
    for name, line in OF_NETWORK.items():
        yield command(f"onn.{name}", line, f"{NETWORK} 2 --bits 4 --set nonlinearity=clipped")
    for name, line in OTHER_AVERAGERS.items():
        yield command(f"onn.{name}", line)
    yield command(
        "onn.map.phases", "onn map net.npz --units --out phases.json", f"{NETWORK} 2 --bits 2", kept=("phases.json",)
    )
    yield command(
        "onn.chip.netlist",
        "onn map net.npz --study chip --netlist chip.json",
        f"{NETWORK} 2 --bits 2",
        kept=("chip.json",),
    )
    yield command(
        "onn.cascade.disturb",
        "onn map cascade.npz --study disturb --draws 1 --set samples=500",
        "onn build --servers 2 --bits 2 --cascade 2 --set tuples=2000 --out cascade.npz",
    )


STUDIES = ("dadiannao", "economics", "inceptionn", "optinc", "optree", "sipml")


def studies() -> Iterator[Case]:
    """Yield all studies of papers."""
    for study in STUDIES:
        yield command(f"reproduce.{study}", f"reproduce {study}")


SPACE = """description: few designs
families:
  - name: switch
    technology: electrical
    fabric: switch
    set: {bandwidth: [50Gbps, 100Gbps, 400Gbps]}
  - name: domains
    technology: electrical
    fabric: two-tier-400g
    set: {tiers.domain.size: [4, 8], tiers.network.taper: [1, 4]}
  - name: circuits
    technology: optical
    fabric: circuit-switch
    set: {degree: [1, 2, 4], bandwidth: [100Gbps, 400Gbps]}
  - name: wavelengths
    technology: optical
    fabric: wdm-ring
    set: {wavelengths: [4, 8]}
"""
DESIGNS = {
    "alexnet": "alexnet --ranks 8 --batch 4",
    "alexnet.no-prune": "alexnet --ranks 8 --batch 4 --set prune=false",
    "alexnet.host": "alexnet --ranks 8 --batch 4 --site 'host_price=$ 1000'",
    "alexnet.board": "alexnet --ranks 8 --batch 4 --site 'host_price=$ 5000' --site 'board_price=$ 20000' "
    "--site host_power=500W",
    "alexnet.dollars": "alexnet --budget dollars=600000 --batch 4",
    "alexnet.watts": "alexnet --budget watts=20kW --batch 4 --site 'host_price=$ 1000'",
    "alexnet.two": "alexnet --ranks 4 --ranks 8 --batch 4",
    "alexnet.part": "alexnet --ranks 8 --batch 4 --price 'wdm-engine=$ 119'",
    "alexnet.whole": "alexnet --ranks 8 --batch 4 --set switches=whole",
    "alexnet.site": "alexnet --ranks 8 --batch 4 --site pue=1.1 --site 'electricity=20 ct/kWh' "
    "--site 'amortisation=3 years' --site maintenance=0.1",
    "alexnet.a100": "alexnet --ranks 8 --batch 4 --accelerator a100",
    "alexnet.16": "alexnet --ranks 16 --batch 8",
    "hdc": "hdc --ranks 8 --batch 64",
    "hdc.host": "hdc --ranks 8 --batch 64 --site 'host_price=$ 1000'",
    "vgg16": "vgg16 --ranks 4 --batch 4",
    "vgg16.b200": "vgg16 --ranks 4 --batch 4 --accelerator b200 --site 'host_price=$ 1000'",
    "resnet50": "resnet50 --ranks 4 --batch 8",
    "googlenet-plain": "googlenet-plain --ranks 4 --batch 8",
    "gpt2-355m": "gpt2-355m --ranks 4 --batch 4",
    "gpt2-355m.host": "gpt2-355m --ranks 4 --batch 4 --site 'host_price=$ 5000'",
    "optinc-llama": "optinc-llama --ranks 4 --batch 4",
    "transformer-big": "transformer-big --ranks 4 --batch 4",
    "refused-ranks": "alexnet --ranks 1",
    "refused-nothing": "alexnet",
    "refused-budget": "alexnet --budget dollars=1000",
}
BILLS = (
    *(f"{fabric} --ranks {ranks}" for fabric, ranks in FABRICS.items()),
    "two-tier-400g --ranks 1024",
    "tpu-v4 --ranks 4096",
    "circuit-switch --ranks 70 --set switches=whole",
    "circuit-switch --ranks 70 --set circuit_switch=polatis-7000",
    "terarack --ranks 64 --set wdm=devices",
    "terarack --ranks 64 --price 'wdm-engine=$ 119'",
    "dgx-h100-64",
    "dgx-a100-64",
    "nvl72-576",
    "tpu-v5p-1024",
    "sip-ocs-1024",
    "sip-ring-1024",
    "optinc-16",
    "inceptionn-4",
    "aws-p5-64 --explain",
    "h100-1024-no-nvlink-400g --ranks 256",
    "terarack --ranks 64 --set wavelengths=8",
    "no-such-thing --ranks 8",
)
GOODPUTS = {
    **{
        cluster: cluster
        for cluster in (
            "h100-1024-no-nvlink-400g",
            "dgx-h100-64",
            "dgx-h100-512",
            "dgx-a100-64",
            "dgx-b200-64",
            "nvl72-576",
            "aws-p5-64",
            "tpu-v4-1024",
            "terarack-1024",
            "sip-ocs-1024",
            "sip-ring-1024",
            "optinc-16",
        )
    },
    "simulated": "h100-1024-no-nvlink-400g --simulate --set runs=2 --seed 5",
    "weibull": "h100-512-two-tier --simulate --set runs=2 --set weibull=0.7 --set crews=2 --set rack.nodes=4 "
    "--set rack.mtbf=20000h",
    "asynchronous": "h100-1024-no-nvlink-400g --set stall=0.6s --set save=51s --set node_price=300000 --slice 512",
    "interruptions": "h100-1024-no-nvlink-400g --ranks 16384 --set interruption_time=3.093h --set restart=5min "
    "--set stall=30s",
    "rates": "dgx-h100-512 --set rates=rsc-1 --set spares=2 --set repair=12h",
    "mtbf": "sip-ocs-1024 --set mtbf.circuit-switch-port=1e7h --set mtbf.host=60000h",
    "remedy": "terarack-1024 --set remedy=rewire --set spare_channels=1 --set communication=30%",
    "recovery": "dgx-h100-64 --set recovery.swap=60s --set recovery.loading=2min --set interval=10min --set months=3",
    "slices": "tpu-v4-1024 --slice 256 --slice 512 --set block=64 --set host_availability=99%",
    "refused-weibull": "dgx-h100-64 --set weibull=0",
}


def economics() -> Iterator[Case]:
    """Yield designs, comparisons of ideas, bills and goodputs."""
    for name, line in DESIGNS.items():
        yield command(f"design.{name}", f"design {line} --space space.yaml", texts={"space.yaml": SPACE})
    for name, line in COMPOSITIONS.items():
        yield command(f"compose.{name}", f"compose {line}")
    for line in BILLS:
        name = ".".join(word.strip("-").replace(".", "-") for word in shlex.split(line) if word != "--ranks")
        yield command(f"bill.{name}", f"bill {line}")
    for name, line in GOODPUTS.items():
        yield command(f"goodput.{name}", f"goodput {line}")


COMPOSITIONS = {
    "hdc-4": "hdc --ranks 4 --bandwidth 10Gbps --global-batch 100",
    "resnet50-16": "resnet50 --ranks 16 --bandwidth 25Gbps",
    "hdc-8-power": "hdc --ranks 8 --global-batch 800 --equal power",
    "refused": "hdc --ranks 8 --bandwidth 100Gbps --equal power",
}
"""Models of which the five ideas are compared."""
BUDGETS = {
    "ring-64": "--ranks 64",
    "ring-16": "--ranks 16 --set wavelengths=16 --set taps=4",
    "losses": "--set node_loss=0.3 --set laser_power=10mW --set taps=10",
    "optinc-4": "--cluster optinc-4",
    "optinc-16": "--cluster optinc-16",
    "refused": "--set node_los=0.3",
}
CIRCUITS = {
    "wdm-ring": "--fabric wdm-ring",
    "sip-ring": "--fabric sip-ring --set wavelengths=8",
    "circuit-switch": "--fabric circuit-switch --set degree=4",
    "circuit-switch.throughput": "--fabric circuit-switch --set degree=4 --objective throughput",
    "circuit-switch.holds": "--fabric circuit-switch --set degree=2 --holds 4 --set hold=10ms "
    "--set reconfiguration=1ms",
    "ocs-measured": "--fabric ocs-measured",
    "refused": "--fabric ring",
}
"""Circuits of ``fast``: the exact solver stops at a wall time."""
TRAFFIC = {
    "nodes": "dgx-h100-64 --job all-reduce@0-31:nbytes=64MiB --job all-reduce@32-63:nbytes=64MiB",
    "even-and-odd": "dgx-h100-64 --job all-reduce@0-62/2:nbytes=64MiB,algorithm=ring,name=even "
    "--job all-to-all@1-63/2:nbytes=16MiB,name=odd",
    "ring": "sip-ring-1024 --set ranks=64 --job all-reduce@0-62/2:nbytes=256MiB,algorithm=ring-two-way-striped "
    "--job all-to-all@1-31/2:nbytes=16MiB,algorithm=one-stage-striped",
    "model": "dgx-h100-64 --job gpt2-355m@0-31:tp=4,global-batch=64 --job all-reduce@32-63:nbytes=64MiB",
    "two-models": "sip-ocs-1024 --set ranks=16 --job resnet50@0-7:dp=8,batch=8 --job hdc@8-15:dp=8,batch=8",
    "refused": "dgx-h100-64 --job all-reduce@0-31:nbytes=64MiB",
}
DAMAGE = {
    "ring": "all-gather --fabric wdm-ring --ranks 16 --set wavelengths=4 --nbytes-per-rank 10kB "
    "--set conversion_time=1us --without wavelength:3 --without segment:7:clockwise --without cable:7 --without node:5 "
    "--without dark-node:5 --without transceiver:9:2",
    "together": "all-gather --fabric wdm-ring --ranks 12 --set wavelengths=4 --nbytes-per-rank 10kB "
    "--without wavelength:3 --without cable:7 --without wavelength:3,cable:7 --straggler late=10us",
    "slow": "all-reduce --fabric wdm-ring --ranks 12 --set wavelengths=4 --nbytes 1MB --without node:1 "
    "--straggler slow=2",
    "torus": "all-gather --fabric torus --ranks 16 --nbytes-per-rank 1MB --without link:0:1 --without node:5 "
    "--without dark-node:5",
    "mesh": "all-reduce --fabric mesh --ranks 9 --nbytes 1MB --without link:0:1 --without node:4",
    "planes": "all-to-all --fabric circuit-switch --ranks 8 --set degree=4 --nbytes 1MB --without plane:2",
    "switch": "all-reduce --fabric switch --ranks 8 --nbytes 1MB --without node:3",
    "refused-graph": "all-reduce --fabric star.yaml --ranks 6 --nbytes 1MB --without node:3",
    "refused": "all-gather --fabric dgx-h100 --ranks 16 --nbytes 1MB --without node:1",
}
EXCHANGES = {
    "list": "catalog exchanges",
    "show.int4": "catalog int4:block=128,feedback",
    "show.topk": "catalog topk --ranks 16 --model 1000",
    "show.powersgd": "catalog powersgd --model resnet50",
    "show.localsgd": "catalog localsgd --model hdc --ranks 4",
    "show.two-level": "catalog two-level --ranks 16",
    "show.inceptionn": "catalog inceptionn:bound=2^-8",
    "show.refused": "catalog int5",
    "break-even": "exchange break-even --model resnet50 --model hdc --exchange int8 --exchange sign "
    "--link 10Gbps --link 100Gbps --ranks 4 --ranks 16",
}
SCHEDULES = {
    "optree": "all-gather --out out.json --fabric wdm-ring --ranks 8 --nbytes 8kB --algorithm optree",
    "synthesized": "all-gather --out out.json --fabric wdm-ring --ranks 8 --nbytes 8kB --set conversion_time=1us",
    "all-reduce": "all-reduce --out out.json --fabric wdm-ring --ranks 8 --nbytes 1MB --algorithm ring",
    "all-to-all": "all-to-all --out out.json --fabric circuit-switch --ranks 6 --nbytes 1MB",
    "tiers": "all-reduce --out out.json --fabric dgx-h100 --ranks 16 --nbytes 1MB",
    "torus": "reduce-scatter --out out.json --fabric torus --ranks 16 --nbytes 1MB",
    "permute": "permute --out out.json --fabric mesh --ranks 9 --nbytes 1MB --permutation reverse",
    "sizes": "all-to-all-v --out out.json --fabric wdm-ring --ranks 6 --sizes zipf:1:2 --nbytes 1MB",
    "msccl": "all-gather --out out.xml --fabric dgx-h100 --ranks 8 --nbytes 1MB --algorithm ring",
    "msccl-synthesized": "all-reduce --out out.xml --fabric dgx-h100 --ranks 8 --nbytes 1MB",
    "chakra": "all-gather --out out.et --fabric ring --ranks 4 --nbytes 16MiB --algorithm ring-two-way",
    "refused": "all-gather --out out.json --fabric wdm-ring --ranks 64 --nbytes 1MB --largest 1kB",
}
MEASURED = {
    "megatron-a100": "accuracy megatron-a100.csv",
    "megatron-sc21": "accuracy megatron-sc21.csv",
    "foundry-h100-small": "accuracy foundry-h100-small.csv",
    "aws-p5-h100": "accuracy collectives/aws-p5-h100.csv --cluster aws-p5-64",
    "lambda-b200-ib": "accuracy collectives/lambda-b200-ib.csv --cluster dgx-b200-64",
}
"""Predictions of steps and collectives that others measured."""
COLLECTIVE_ROWS = {
    "aws-p5": "collectives/aws-p5-h100.csv --cluster aws-p5-64",
    "nebius": "collectives/nebius-h100-ib.csv --cluster dgx-h100-64",
    "a100": "nccl-all-reduce-a100-4.csv --accelerator a100 --gpus 4",
    "refused": "nccl-all-reduce-a100-4.csv --accelerator a100",
}
"""Timed collectives that links are fitted to."""
TABLES = "LIGHTLOOM_MEASURED"
"""Environment variable of the folder that holds these tables."""
ENTRIES = """
dgx-h100-64 terarack-64 optinc-4 sip-ocs-1024 tpu-v5p-1024 nvl72-576 inceptionn-4 dadiannao-25g wdm-ring terarack
sip-ring circuit-switch ocs-136 ocs-measured optical-averager dgx-h100 dgx-h100-superpod two-tier-400g
gb200-nvl72-racks fat-tree-400g tpu-v4-twisted torus mesh ring switch ethernet-10g a100 a100-calibrated b200 dadiannao
h100 h100-calibrated h100-optinc h200 titan-xp tpu-v4 tpu-v5p adc board-h100 calient-s320 comb-source host-hgx-h100
palomar-136 switch-port-400g transceiver-800g wdm-engine parts no-such-entry
"""
"""Clusters, fabrics, accelerators and parts of the catalog."""


def others() -> Iterator[Case]:
    """Yield what the other commands compute."""
    for name, line in BUDGETS.items():
        yield command(f"budget.{name}", f"budget {line}")
    for name, line in CIRCUITS.items():
        yield command(f"circuits.{name}", f"circuits traffic.csv {line}", texts=FILES)
    for name, line in TRAFFIC.items():
        yield command(f"traffic.{name}", f"traffic --cluster {line}")
    for name, line in DAMAGE.items():
        yield command(f"damage.{name}", f"collective {line}", texts=FILES)
    for name, line in EXCHANGES.items():
        yield command(f"exchange.{name}", line)
    for name, line in SCHEDULES.items():
        form = line.split()[2].rpartition(".")[2]
        line = line if "--algorithm" in line else f"{line} --algorithm synthesized"
        yield command(f"schedule.export.{name}", f"collective {line}", kept=("out*",))
        if form in ("json", "xml") and name != "refused":
            on = "" if form == "json" else " --fabric dgx-h100 --ranks 8 --nbytes 1MB"
            yield command(f"schedule.check.{name}", f"schedule out.{form}{on}", f"collective {line}")
    yield command(
        "schedule.import",
        "schedule in.json --out out.xml",
        "collective all-gather --out in.json --fabric dgx-h100 --ranks 8 --nbytes 1MB --algorithm ring",
        kept=("out.xml",),
    )
    yield command("catalog", "catalog")
    for name in ENTRIES.split():
        yield command(f"catalog.{name}", f"catalog {name}")
    for name in ("cluster", "experiment", "schedule"):
        yield Case(f"schema.{name}", ("catalog", "--schema", name))
    yield command(
        "sweep",
        "sweep experiment.yaml --out sweep --workers 1",
        texts={"experiment.yaml": EXPERIMENT},
        kept=("sweep/*.parquet",),
    )
    for name, line in MEASURED.items():
        yield command(f"accuracy.{name}", line, needs=TABLES)
    profile = "tests/calibration/data/gpt2-h100.json.gz"
    yield command("accuracy.profile", "accuracy gpt2-h100.json.gz --cluster dgx-h100-64", inputs=(profile,))
    yield command("calibrate.profile", "calibrate gpt2-h100.json.gz --accelerator h100", inputs=(profile,))
    for name, line in COLLECTIVE_ROWS.items():
        yield command(f"calibrate.{name}", f"calibrate $LIGHTLOOM_MEASURED/{line}", needs=TABLES)


EXPERIMENT = """name: small
collectives:
  - kind: [all-gather, all-reduce]
    fabric: [wdm-ring, ring]
    ranks: [4, 6]
    nbytes_per_rank: [1KiB, 1MiB]
    algorithm: [ring, ring-two-way, optree, synthesized]
plans:
  - model: hdc
    cluster: inceptionn-4
    strategy: ddp
    algorithm: [ring, one-stage]
"""
EXPRESSIONS = {
    "lower-bound.ring": "ll.lower_bound('all-gather', 'wdm-ring', 64, '64MiB')",
    "lower-bound.tiers": "ll.lower_bound('all-reduce', 'dgx-h100', 64, '64MiB')",
    "lower-bound.circuits": "ll.lower_bound('all-to-all', 'circuit-switch', 16, '64MiB')",
    "synthesize": "ll.synthesize('all-gather', 'sip-ring', 8, '1MiB', wavelengths=4)",
    "cost": "ll.cost(ll.synthesize('all-gather', 'wdm-ring', 8, '1MiB', algorithm='ring'), wavelengths=16)",
    "verify": "ll.verify(ll.synthesize('all-reduce', 'torus', 16, '1MiB'))",
    "rows": "ll.collective('all-gather', fabric='ring', ranks=8, nbytes='1MiB').rows()",
    "plan.rows": "ll.plan('hdc', cluster='inceptionn-4', ranks=4).rows()",
    "averager": "ll.averager(servers=2, bits=4, evaluations=5000)",
    "reducers": "ll.compare_reducers(servers=4, bits=8)",
    "trace.zoo": "ll.trace('hdc', batch=32)",
    "trace.transformer": "ll.trace('transformer-big', batch=2, sequence_length=64)",
    "fabric": "ll.load_fabric('two-tier-400g', 64, set={'tiers.network.taper': 2})",
    "fabric.circuits": "ll.load_fabric('ocs-136', 64)",
    "cluster": "ll.load_cluster('terarack-64', ranks=32, set={'fabric.wavelengths': 16})",
}
"""Results of the Python interface, where ``ll`` is lightloom."""


def python() -> Iterator[Case]:
    """Yield results of the Python interface."""
    for name, expression in EXPRESSIONS.items():
        yield Case(f"python.{name}", (), expression=expression)


CASES = (
    *plans(),
    *plans_of_files(),
    *collectives(),
    *variants_of_collectives(),
    *studies(),
    *averagers(),
    *economics(),
    *others(),
    *python(),
)
"""All cases."""
if len({case.name for case in CASES}) < len(CASES):
    raise ValueError("two cases have the same name")
