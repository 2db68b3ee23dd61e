"""The DaDianNao study: rows, figures, assumptions and fits."""

from __future__ import annotations

from lightloom.studies.base import Study
from lightloom.studies.dadiannao import beyond, equation3, figure2, figure5, headline, table1, table2
from lightloom.studies.dadiannao.drawings import figures
from lightloom.studies.dadiannao.model import FITTED, ONE_FITTED

ASSUMPTIONS = (
    f"Fitted to the ten headlines, as computation time does not follow from the text: R = {FITTED.passes:g} passes of "
    "multiply-accumulates at the peak rate for each pass of broadcasts, and β = "
    f"{FITTED.synapse:g}, seconds for the synapses that a chip holds as a share of what 6.4 GB/s would take "
    f"(with one constant: R = {ONE_FITTED.passes:g}). Rows that use them are marked fitted.",
    "Inferred, as the headlines follow from no single unit: electrical links at 6.4 GB/s, Table 1's value for both "
    "directions together, optical links at 12.5 and 50 GB/s, one direction of Table 1's values.",
    "Eq. 3 has a square root that the text has lost: 2 · latency · (√p − 1) + share · (p − 1)/BW, the textbook result "
    "for a mesh; √p is real, whatever the number of chips. Without the root no constants fit.",
    "How many broadcasts an iteration needs scales computation and communication alike, and cannot be told.",
    "Every layer of Table 2 broadcasts once, also those without weights: their latencies are what makes DenseNet121's "
    "EDP at batch 256 get worse.",
    "Chips and PHYs burn their peak power in the seconds in which they work, and nothing in the others.",
    "Sizes of the 27 cases are those printed in Table 2 (MB as 2^20 bytes); multiply-accumulates are counted from the "
    "graphs, Inception-v3's in a guessed variant that has the printed sizes.",
    "AlexNet is model parallel at batch 1 and 32, all else data parallel (section 5).",
    "The bars and chip counts of Figs. 2 and 5 exist only as images: rows use what the text says of them.",
    "800 G, 1.6 T and 3.2 T: twice, four and eight times 400-O, at its latency; no PHY powers, hence no EDP.",
)


def study() -> Study:
    """Regenerate the paper.

    Raises:
        WorkloadError: PyTorch, which counts the nine CNNs the first time, is missing.
    """
    return Study(
        name="dadiannao",
        paper="Ro, Lee and Ahn, “Impact of optical interconnects on a multi-chip machine-learning architecture”, "
        "Electronics 2018, 7, 130",
        claims=(
            *table1.claims(),
            *table2.claims(),
            *equation3.claims(),
            *figure2.claims(),
            *figure5.claims(),
            *headline.claims(),
            *beyond.claims(),
        ),
        figures=figures(),
        assumptions=ASSUMPTIONS,
    )
