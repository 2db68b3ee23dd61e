"""The OptINC study: rows, figures and assumptions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from lightloom.studies.base import Study, StudyFigure
from lightloom.studies.optinc import cascading, drawings, latency, learning, slips, tables, traffic, trained
from lightloom.studies.optinc.measured import COMMANDS, measured, noise_comparison

ASSUMPTIONS = (
    "Measured rows come from files that are kept with the package. They were made by: "
    + "; ".join(f"{name}: {command}" for name, command in COMMANDS.items())
    + ".",
    "Quantisation of the mean is floor, as section III-C discards decimals; gradients are quantised half-up by the "
    "servers, in offset binary, with one power-of-two scale for each block of 256 values. The paper states neither.",
    "Figure 7(a) is one bar for injected errors; which row of Table II it injects is not stated. Rows 3-6 (the most "
    "errors) and 4-8 (the largest) are injected here, a sign of ± as half each way.",
    "The language model: 8 layers, hidden 384, 8 heads as stated; feed-forward 1024. Trained on bytes (vocabulary 256) "
    "with sequences of 128, AdamW, a cosine from 1e-3; none of these is stated. Four servers' gradients are computed "
    "one after the other in one process and averaged as the DDP hook averages them; products in bfloat16, one thread. "
    "Validation: the last tenth of WikiText-2's validation split; training: the rest of it and the test split.",
    "Figure 7(b): forward and backward pass at 60 TFLOP/s · 0.6, no overlap of network and computing, gradients of 16 "
    "bits on 8 · 800 Gbit/s a server, no latency but the averager's own, vocabulary 32,000. ResNet-50 has 100 "
    "classes and the stem of the original; the customary one for CIFAR, of stride 1, takes 15 times the arithmetic and "
    "is drawn, too.",
    "Areas count the paper's MZIs for whole matrices by full SVDs and for approximated squares by Σ·U, P and T "
    "included, biases not.",
)
_PAPER = (
    "Fei, Zhang, Li and Schlichtmann, “OptINC: optical in-network-computing for scalable distributed learning”, "
    "arXiv 2603.28290"
)


def study(work: Path | None = None) -> Study:
    """Reproduce the paper.

    Args:
        work: a folder whose ``training.json``, ``language.json`` and ``images.json`` replace those of the package.

    Raises:
        ConfigError: one of the files cannot be read.
    """
    language, digits, images = (measured(name, work) for name in ("language", "training", "images"))
    noise = noise_comparison()
    return Study(
        name="optinc",
        paper=_PAPER,
        claims=(
            *tables.claims(),
            *trained.claims(noise),
            *traffic.claims(),
            *learning.claims(language, digits, images),
            *latency.claims(),
            *cascading.claims(),
            *slips.claims(),
        ),
        figures=tuple(_figures(language, digits, noise)),
        assumptions=ASSUMPTIONS,
    )


def _figures(language: Any, digits: Any, noise: Any) -> list[StudyFigure]:
    found = [
        StudyFigure(
            title="Figure 6: bytes that a server sends",
            caption="Counted in all-reduce schedules that passed the verifier; diamonds are the paper's.",
            draw=drawings.traffic,
        )
    ]
    if language is not None:
        found += [
            StudyFigure(
                title="Figure 7(a): training with averages of light",
                caption="Left: the paper's LLaMA-like network, here on WikiText-2. Right: a CNN on MNIST, in place of "
                "ResNet-50 on CIFAR-100. Paper: at most 0.02 more loss and 0.55 points less accuracy.",
                draw=partial(drawings.training, language, digits),
            ),
            StudyFigure(
                title="Figure 7(a), in pairs",
                caption="The end of each run less that of float32 with the same seed and data: single runs (dots), "
                "their mean and its 95 % interval.",
                draw=partial(drawings.pairs, language, digits),
            ),
        ]
    found += [
        StudyFigure(
            title="Figure 7(b): what is saved, against the batch",
            caption="Four servers, 8 · 800 Gbit/s each. The paper states no batch; diamonds are where its over 25 % "
            "and about 17 % lie on our curves. Nothing was chosen to meet them.",
            draw=drawings.savings,
        ),
        StudyFigure(
            title="Figure 7(b): where a step's time goes",
            caption="The same for three batches each, codes of 16 bits in both. At most a third can be saved at N = 4.",
            draw=drawings.breakdown,
        ),
        StudyFigure(
            title="Table II: accuracy is not error",
            caption="The four erring networks: 4-8 errs least often, and by 1024 each time; 4-7 and 3-7 err more "
            "often, and weigh 13 to 16 times less.",
            draw=drawings.errors,
        ),
    ]
    if noise is not None:
        found.append(
            StudyFigure(
                title="Beyond the paper: noise",
                caption="Scenario 1, Gaussian noise on every signal relative to its own full scale. Trained networks "
                "(dashed) were trained with noise, but for the one called exact.",
                draw=partial(drawings.noise, noise),
            )
        )
    return found
