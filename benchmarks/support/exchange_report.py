"""What ``benchmarks.training.exchange`` says of its measurements: rows, and reductions beside Figure 12's."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

WORKERS = 4
CONFIGURATIONS = ("WA", "WA+C", "INC", "INC+C")
MODELS = {"HDC": "784-500-500-500-500-10", "MLP 22 MB": "784-2000-2000-10"}
TIMED = 2
"""Steps of a turn that count."""
PRINTED = {
    "total, INC against WA": {"AlexNet": 52, "HDC": 38, "ResNet-50": 49, "VGG-16": 31},
    "communication, INC against WA": {"AlexNet": 55, "HDC": 39, "ResNet-50": 58, "VGG-16": 36},
    "communication, WA+C against WA": {"about": 30.8},
    "communication, INC+C against WA": {"about": 80.7},
    "communication, INC+C against INC": {"about": 53.9},
}
"""Percent shorter; section VIII-A on Fig. 12, 10 Gbit/s."""


def table(outcomes: list[dict[str, Any]], model: str) -> list[dict[str, Any]]:
    """Rows by configuration, from what each rank measured, the aggregator last."""

    def by_round(name: str, of_step: Callable[[list[dict[str, float]]], float]) -> list[float]:
        """The mean over the timed steps of each round; ``of_step`` gets what each rank measured."""
        turns = [outcome["models"][model][name] for outcome in outcomes]
        return [
            sum(of_step([turn[n][k] for turn in turns]) for k in range(TIMED)) / TIMED for n in range(len(turns[0]))
        ]

    rows = []
    for name in CONFIGURATIONS:
        step = by_round(name, lambda ranks: max(one["step"] for one in ranks[:WORKERS]))
        communication = by_round(
            name, lambda ranks: max(one["exchanging"] for one in ranks[:WORKERS]) - ranks[WORKERS]["updating"]
        )
        sent = by_round(name, lambda ranks: sum(one["bytes"] for one in ranks))
        rows.append(
            {
                "configuration": name,
                "step_s": median(step),
                "communication_s": median(communication),
                "computing_s": median(by_round(name, lambda ranks: max(one["computing"] for one in ranks))),
                "updating_s": median(by_round(name, lambda ranks: max(one["updating"] for one in ranks))),
                "wire_bytes": median(sent),
                "gradient_ratio": median(by_round(name, lambda ranks: ranks[0]["ratio"])),
                "step_s_rounds": step,
                "communication_s_rounds": communication,
            }
        )
    return rows


def reductions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Percent by which one is shorter than another, round by round, beside what the paper prints."""
    found = {row["configuration"]: row for row in rows}
    compared = []
    for title, printed in PRINTED.items():
        what, pair = title.split(", ")
        ours, base = (
            found[name][f"{'step' if what == 'total' else what}_s_rounds"] for name in pair.split(" against ")
        )
        percent = [100 * (1 - a / b) for a, b in zip(ours, base, strict=True)]
        compared.append(
            {"what": title, "percent": median(percent), "range": [min(percent), max(percent)], "printed": printed}
        )
    return compared


def order(rows: list[dict[str, Any]]) -> str:
    """Slowest communication first."""
    return " > ".join(row["configuration"] for row in sorted(rows, key=lambda row: -row["communication_s"]))


def print_table(model: str, rows: list[dict[str, Any]], write: Callable[[str], None] = print) -> None:
    write(f"\n{model} ({MODELS[model]}), ms, medians over {len(rows[0]['step_s_rounds'])} rounds")
    write("          step  communication (rounds)        computing  updating  MB on all links  gradients")
    for row in rows:
        low, high = min(row["communication_s_rounds"]), max(row["communication_s_rounds"])
        write(
            f"{row['configuration']:6}{1e3 * row['step_s']:8.1f}{1e3 * row['communication_s']:10.1f} "
            f"({1e3 * low:6.1f} .. {1e3 * high:7.1f}){1e3 * row['computing_s']:12.1f}{1e3 * row['updating_s']:10.1f}"
            f"{row['wire_bytes'] / 1e6:15.2f}{row['gradient_ratio']:10.1f} x"
        )
    write(f"communication: {order(rows)} (expected: WA > WA+C > INC > INC+C)")
    for row in reductions(rows):
        printed = ", ".join(f"{name} {percent:g}" for name, percent in row["printed"].items())
        low, high = row["range"]
        write(f"{row['what']:34}{row['percent']:6.1f} % shorter ({low:5.1f} .. {high:5.1f}); printed: {printed}")
