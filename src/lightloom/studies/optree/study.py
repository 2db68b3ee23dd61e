"""The OpTree study: rows, figures and assumptions."""

from __future__ import annotations

from lightloom.studies.base import Study
from lightloom.studies.optree import averages, comparison, depth, example, table1
from lightloom.studies.optree.drawings import figures

ASSUMPTIONS = (
    "Message sizes of Figs. 5 and 6: 1 to 128 MiB per node; the paper's range is not legible in the text we have. All "
    "algorithms pay d/B + a a step, so that no ratio depends on it, but for NE with two shares a step.",
    "The 4M of Fig. 4 is 4 MiB of data per node; the normalised figure does not depend on it.",
    "One fibre each way. The paper has four fibre rings, which would be two each way and 35 steps instead of 70; its "
    "counts, and its example on 2 wavelengths, need one.",
    "No limit on transceivers. A step of OpTree sends on at most 2w = 128 of a TeraRack node's 4·64 micro-rings.",
    "The delay of O/E/O conversion, one cycle a flit, is left out: the paper names no clock. It would be a part of a, "
    "which cancels in every normalised figure.",
    "Every step pays the full reconfiguration of 25 µs, and propagation is free (the paper's cost model).",
    "Each curve of Fig. 4 is divided by its own lowest point, each panel of Figs. 5 and 6 by its first OpTree result.",
    "One lightpath serves one destination, in every schedule that is built. WRHT as an all-gather presumes multicast, "
    "and stays a formula.",
)


def study() -> Study:
    """Reproduce the paper."""
    return Study(
        name="optree",
        paper="Dai, Chen, Huang and Zhang, “OpTree: an efficient algorithm for all-gather operation in optical "
        "interconnect systems”, ICC 2023 (arXiv 2211.15119)",
        claims=(
            *table1.claims(),
            *example.claims(),
            *depth.claims(),
            *comparison.claims(),
            *averages.claims(),
        ),
        figures=figures(),
        assumptions=ASSUMPTIONS,
    )
