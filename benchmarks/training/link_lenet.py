"""LeNet on MNIST, averaged through a link in watts: ``python -m benchmarks.training.link_lenet --json FILE``.

Four servers in one process, 64 images each a step, codes of 8 bits through `onn link`'s defaults: 3 mW full scale, mesh
phases 3e-3 rad, every other error and noise at once. Every seed has a chip of its own; the float32 run beside it starts
from the same weights and sees the same batches. The history is the test accuracy of both runs, and how many mean codes
came out wrong. Finished seeds are kept in the file, so that an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.core.arrays import Codes, Ints
from lightloom.core.errors import ConfigError, LightloomError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.exchange.datasets import data_folder
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, LayeredNetwork
from lightloom.photonics.link.settings import Link
from lightloom.photonics.link.simulate import LinkAverager
from lightloom.photonics.link.word_errors import interval

SERVERS, BITS, BATCH = 4, 8, 64
SEEDS = 5
ITERATIONS = 400
NOISE = 5e-3
"""Noise that the network is built for, as a share of full scale."""
LIMIT = 0.2
"""Points of test accuracy that the paired mean may differ by."""
_T_4 = 2.7764
"""97.5 % point of Student's t with four degrees of freedom (tables)."""


class CountingAverager:
    """An averager that counts its wrong mean codes."""

    def __init__(self, averager: LinkAverager) -> None:
        self.averager = averager
        self.servers, self.bits, self.rounding = averager.servers, averager.bits, averager.rounding
        self.wrong = self.words = 0

    def __call__(self, codes: Codes) -> Ints:
        means = self.averager(codes)
        exact = (codes.sum(axis=0, dtype=np.int64) + self.servers // 2) // self.servers
        self.wrong += int((means != exact).sum())
        self.words += means.size
        return means


def trained(seed: int, iterations: int, averager: CountingAverager | None, data: Path) -> list[dict[str, float]]:
    """Train one LeNet, and return iteration, loss and test accuracy at four points."""
    import torch
    from torch.nn.functional import cross_entropy

    from lightloom.exchange.datasets import test_digits, training_digits
    from lightloom.models.torch.zoo.chains import lenet
    from lightloom.papers.runs.digits import lenet_recipe
    from lightloom.papers.runs.emulated import EmulatedServers

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    recipe, net = lenet_recipe(seed, iterations), lenet()
    servers = EmulatedServers(net, SERVERS, averager)
    optimizer = torch.optim.SGD(
        net.parameters(), recipe.learning_rate, recipe.momentum, weight_decay=recipe.weight_decay
    )
    (images, labels), (tests, answers) = (_tensors(part(data)) for part in (training_digits, test_digits))
    rng, history = np.random.default_rng(seed), []
    for iteration in range(1, iterations + 1):
        division = (iteration - 1) // recipe.iterations_per_division
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate / recipe.learning_rate_divisor**division
        batch = torch.from_numpy(rng.integers(0, len(labels), (SERVERS, BATCH)))

        def loss(server: int, batch: torch.Tensor = batch) -> torch.Tensor:
            return cross_entropy(net(images[batch[server]]), labels[batch[server]])

        losses = servers.step(loss)
        optimizer.step()
        if iteration % max(iterations // 4, 1) == 0:
            with torch.no_grad():
                right = sum(
                    int((net(x).argmax(1) == y).sum())
                    for x, y in zip(tests.split(2000), answers.split(2000), strict=True)
                )
            history.append({"iteration": iteration, "loss": float(np.mean(losses)), "accuracy": right / len(answers)})
    return history


def _tensors(digits: Any) -> tuple[Any, Any]:
    import torch

    images = torch.from_numpy(digits.images.astype(np.float32) / 255).view(-1, 1, 28, 28)
    return images, torch.from_numpy(digits.labels.astype(np.int64))


@cache
def _network() -> LayeredNetwork:
    return build(SERVERS, BITS, noise=NOISE, nonlinearity="clipped", rounding="half-up").network


def run_seed(seed: int, iterations: int, link: Link, data: Path) -> dict[str, Any]:
    """Train both ways from one seed."""
    arguments = FunctionArguments(servers=SERVERS, bits=BITS, rounding="half-up")
    averager = CountingAverager(LinkAverager(_network(), arguments, link, seed=seed, fabrication=seed))
    plain = trained(seed, iterations, None, data)
    lit = trained(seed, iterations, averager, data)
    return {"seed": seed, "float32": plain, "link": lit, "wrong_words": averager.wrong, "words": averager.words}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the paired mean difference in points with its 95 % interval, and the word error rate with its own."""
    differences = [100 * (row["link"][-1]["accuracy"] - row["float32"][-1]["accuracy"]) for row in rows]
    mean = float(np.mean(differences))
    half = _T_4 * float(np.std(differences, ddof=1)) / np.sqrt(len(rows)) if len(rows) == SEEDS else float("nan")
    wrong = np.array([row["wrong_words"] for row in rows])
    words = rows[0]["words"]
    return {
        "points": differences,
        "mean_points": mean,
        "interval_95_points": [mean - half, mean + half],
        "word_error_rate": float(wrong.mean() / words),
        "word_error_interval_95": interval(wrong, words),
        "within_limit": abs(mean) <= LIMIT,
    }


def print_table(rows: list[dict[str, Any]], found: dict[str, Any]) -> None:
    """One line a seed, then the mean."""
    print("seed  float32 %   link %  points   wrong words")
    for row, points in zip(rows, found["points"], strict=True):
        both = [100 * row[way][-1]["accuracy"] for way in ("float32", "link")]
        print(
            f"{row['seed']:4}{both[0]:11.2f}{both[1]:9.2f}{points:+8.2f}   {row['wrong_words']:,} of {row['words']:,}"
        )
    low, high = found["interval_95_points"]
    print(f"mean {found['mean_points']:+.3f} points, 95 % interval {low:+.3f} to {high:+.3f} (limit ±{LIMIT})")
    low, high = found["word_error_interval_95"]
    print(f"word error rate {found['word_error_rate']:.2e}, 95 % interval {low:.1e} to {high:.1e}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.link_lenet")
    parser.add_argument("--json", type=Path, required=True, help="history; finished seeds in it are not run again")
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--data", type=Path, help="folder with MNIST; $LIGHTLOOM_DATA unless given")
    options = parser.parse_args()
    check_writable(options.json)
    if options.iterations < 4:
        parser.error("expected at least four iterations")
    data, link = data_folder(options.data), replace(Link(), full_scale=3e-3, phase_error=3e-3)
    configuration = {"link": asdict(link), "iterations": options.iterations, "servers": SERVERS, "bits": BITS}
    document: dict[str, Any] = {"configuration": configuration, "seeds": []}
    if options.json.exists():
        document = json.loads(options.json.read_text())
        if document["configuration"] != configuration:
            raise ConfigError(f"{str(options.json)!r} holds runs of another link or length: name another file")
    rows: list[dict[str, Any]] = document["seeds"]
    for seed in range(len(rows), SEEDS):
        rows.append(run_seed(seed, options.iterations, link, data))
        document["provenance"] = provenance(configuration, seed=0)
        document["summary"] = summary(rows)
        write_atomically(options.json, json.dumps(document, indent=1).replace("NaN", "null") + "\n")
    print_table(rows, summary(rows))


if __name__ == "__main__":
    try:
        main()
    except LightloomError as error:
        sys.exit(f"error: {error}")
