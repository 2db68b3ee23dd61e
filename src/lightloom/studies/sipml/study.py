"""The SiP-ML study: rows, figures and assumptions."""

from __future__ import annotations

from pathlib import Path

from lightloom.studies.base import Study
from lightloom.studies.sipml import charts, circuits, convergence, data_parallel, degrees, drawings, figure4, headline
from lightloom.studies.sipml.comparison import Comparison

ASSUMPTIONS = (
    "Of the paper, sections 3.1 to 3.3 were seen: not its evaluation, its appendices, or any figure. Facts on the "
    "experiments are from the authors' published simulator and scripts of 2021, which hold no measured times.",
    "Fig. 4: the order of A, B, C and D, two parts of A and four of D, equal times of all parts.",
    "The GPU is not named. Ours is an A100 (roofline at half of its peaks, bfloat16, no launch times); rows named "
    "titan_xp take a TITAN Xp in float32. A faster GPU leaves more of a step to the network.",
    "Models are our zoo's, at the scripts' global batches (8,192, 1,024 and 1,024) and 1,024 GPUs: 8 images, one pair "
    "of 64 tokens, and one text of 1,024 tokens a GPU.",
    "Gradients are float32, all-reduced in buckets of 25 MiB while the backward pass goes on; Adam's update takes 28 "
    "bytes of memory traffic a parameter.",
    "“State-of-the-art electrical” is one non-blocking packet switch of 400 or 200 Gb/s a GPU, as in the scripts, "
    "without packet headers and latency. Servers with a faster domain inside (the paper's Fig. 2) are not modelled.",
    "SiP-OCS: 20 circuits of B / 20, set once. SiP-Ring: one fibre each way with B / 50 Gb/s whole wavelengths, Δ = "
    "16, holds of 250 µs after 25 µs in the dark where a cycle of holds is faster than one that stands.",
    "All-reduces between groups run one way round, so that SiP-Ring's other direction idles in data parallelism alone.",
    "k is 1, 2, 4, ... 128 and τ 1 or 10 µs; larger k, other τ, and fewer peers than the degree allows are not tried.",
    "The scripts' model is taken for data parallelism: their simulated part is not to be had, and is our computing.",
)


def study(work: Path | None = None) -> Study:
    """Regenerate what can be.

    Args:
        work: folder with another comparison of networks than the one that comes with the package.

    Raises:
        ConfigError: it cannot be read.
    """
    measured = Comparison.load(work)
    return Study(
        name="sipml",
        paper="Khani, Ghobadi, Alizadeh, Zhu, Glick, Bergman, Vahdat, Klenk and Ebrahimi, “SiP-ML: high-bandwidth "
        "optical network interconnects for machine learning training”, SIGCOMM 2021",
        claims=(
            *degrees.claims(),
            *figure4.claims(),
            *convergence.claims(),
            *circuits.claims(),
            *data_parallel.claims(),
            *headline.claims(measured),
        ),
        figures=(*charts.figures(measured), *drawings.figures()),
        assumptions=ASSUMPTIONS,
    )
