"""The INCEPTIONN study: rows, figures and assumptions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lightloom.studies.base import Record, Study, StudyFigure
from lightloom.studies.inceptionn import (
    accuracy,
    bitwidths,
    drawings,
    gradients,
    limited_links,
    scalability,
    slips,
    software,
    tables,
    training_time,
)
from lightloom.studies.inceptionn.measured import COMMANDS, measured

ASSUMPTIONS = (
    "Measured rows come from files that are kept with the package. They were made by: "
    + "; ".join(f"{name}: {command}" for name, command in COMMANDS.items())
    + ".",
    "HDC has five weight layers, 784-500-500-500-500-10, as section VII-A says in words; its 2.5 MB fit three. "
    "Initialisation, input scaling and the loss are not stated: PyTorch's own, pixels from 0 to 1, mean cross-entropy "
    "over a worker's batch, averaged over workers.",
    "Truncated weights (Fig. 4) are truncated after every update and stay so: the paper explains their effect by "
    "errors that add up.",
    "The four processes of the measured rows share one machine's two cores; links are limited by tbf to the stated "
    "rate. Computation therefore takes longer than on four machines, against what is compressed as well.",
    "Sizes in MB are taken as 2^20 bytes, which AlexNet's and ResNet-50's parameter counts bear out.",
    "Section VIII-D does not state the base of its logarithm; 2 is taken.",
    "The bars of Figs. 3, 4, 7 and 12 to 15 are not legible in the text that we have: rows use the numbers that the "
    "text names, and figures show ours.",
)


def study(work: Path | None = None) -> Study:
    """Reproduce the paper.

    Args:
        work: a folder whose ``training.json`` replaces the training record of the package.

    Raises:
        ConfigError: the file cannot be read.
    """
    training = measured("training", work)
    loop, codec, exchange = measured("software"), measured("codec"), measured("exchange")
    return Study(
        name="inceptionn",
        paper="Li et al., “A network-centric hardware/algorithm co-design to accelerate distributed training of deep "
        "neural networks”, MICRO 2018",
        claims=(
            *tables.claims(),
            *bitwidths.claims(training),
            *training_time.claims(),
            *accuracy.claims(training),
            *gradients.claims(training["gradients"]),
            *software.claims(loop, codec),
            *limited_links.claims(exchange),
            *scalability.claims(),
            *slips.claims(),
        ),
        figures=(*_figures_3_to_7(training, loop), *_figures_12_to_15(training, exchange)),
        assumptions=ASSUMPTIONS,
    )


def _figures_3_to_7(training: Record, loop: Record) -> tuple[StudyFigure, ...]:
    return (
        StudyFigure(
            title="Figure 3: what communication takes",
            caption="Worker-aggregator, 10 Gbit/s. Our model sends every copy over the aggregator's one link; VGG-16 "
            "took longer than its links explain.",
            draw=drawings.communication_share,
        ),
        StudyFigure(
            title="Figure 4: truncating gradients, weights, both",
            caption="HDC on MNIST, trained here for 10,000 iterations by four processes. Paper: truncated gradients "
            "cost far less accuracy than truncated weights.",
            draw=partial(drawings.truncation, training),
        ),
        StudyFigure(
            title="Figure 5: gradients early, in the middle and late",
            caption="One worker's gradient of HDC; dotted lines are the bounds 2^-10, 2^-8 and 2^-6. Paper: "
            "AlexNet, all values between -1 and 1, most close to 0.",
            draw=partial(drawings.distribution, training["gradients"]),
        ),
        StudyFigure(
            title="Figure 7: compression in software, inside the loop",
            caption=f"{loop['what']}. Paper: training takes 2 to 4 times as long with Snappy and SZ.",
            draw=partial(drawings.software_loop, loop),
        ),
    )


def _figures_12_to_15(training: Record, exchange: Record) -> tuple[StudyFigure, ...]:
    return (
        StudyFigure(
            title="Figure 12: training time, by our communication model",
            caption="Table II's computation plus payload and headers at 10 Gbit/s. The paper's rings use "
            "less than half of their links' bandwidth, so its INC saves less than this.",
            draw=drawings.training_time,
        ),
        StudyFigure(
            title="Figure 12, measured",
            caption=f"{exchange['what']}",
            draw=partial(drawings.measured_exchange, exchange),
        ),
        StudyFigure(
            title="Beyond the paper: the hook in place of PyTorch's own",
            caption="Step of a 23 MB MLP under DistributedDataParallel, four processes on two cores behind limited "
            "links: medians and ranges over rounds. The hook steps aside where plain all-reduce is faster.",
            draw=partial(drawings.hooks, measured("links")),
        ),
        StudyFigure(
            title="Figures 13 and 14(b): accuracy over iterations",
            caption="HDC on MNIST, seed 0. The codec as printed breaks its bound at 2^-8 and 2^-10; the "
            "windowed form keeps it, and error feedback adds dropped gradients to later ones.",
            draw=partial(drawings.learning, training),
        ),
        StudyFigure(
            title="Table III and Figure 14(a): bits a value",
            caption="HDC: the paper's shares and those of our gradients, mean over training.",
            draw=partial(drawings.bit_widths, training),
        ),
        StudyFigure(
            title="Figure 15: exchange time against workers",
            caption="Section VIII-D's forms, with Table II's speed of sums; at the right up to 1024 workers. "
            "Paper: WA grows almost linearly, INC stays almost constant.",
            draw=drawings.scalability,
        ),
    )
