"""The study: all rows and figures, and what had to be assumed."""

from __future__ import annotations

from lightloom.studies.base import Study
from lightloom.studies.sipml import circuits, convergence, data_parallel, degrees, figure4
from lightloom.studies.sipml.drawings import figures

ASSUMPTIONS = (
    "Of the paper, sections 3.1 to 3.3 were seen: not its evaluation, its appendices, or any figure. Facts on the "
    "experiments are from the authors' published simulator (scripts of 2021); it has no measured times of operators.",
    "Fig. 4: the order of A, B, C and D, two parts of A and four of D, equal times of all parts.",
)


def study() -> Study:
    """Regenerate what can be."""
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
        ),
        figures=figures(),
        assumptions=ASSUMPTIONS,
    )
