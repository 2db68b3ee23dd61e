"""Trained networks: their accuracy with our weights, and their noise limits compared with constructed networks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import as_file, files
from typing import Any

from lightloom.core.claims import Claim
from lightloom.photonics.averaging.proved.verify import verify
from lightloom.photonics.averaging.realised.area import TABLE_I
from lightloom.photonics.averaging.realised.files import load_network
from lightloom.studies.optinc import PAPER
from lightloom.studies.optinc.tables import name

TARGET_TOLERANCE, TARGET_AREA = 2.0, 2.0
"""Target of constructed networks: multiple of the best trained one's noise limit, at a percentage of its MZIs."""
_WEIGHTS = "exact"


def claims(noise: Any) -> tuple[Claim, ...]:
    """Return rows on accuracy and, if the comparison is available, on noise."""
    return (*_accuracies(), *_noise(noise))


def kept(name: str) -> Any:
    """Return a comparison of trained and constructed networks that is kept beside them, or None."""
    # The package that holds it would bring PyTorch along.
    path = files("lightloom.photonics") / "onn" / "trained" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _accuracies() -> Iterator[Claim]:
    verification = None
    resource = files("lightloom.photonics") / "onn" / "trained" / f"{_WEIGHTS}.npz"
    if resource.is_file():
        with as_file(resource) as path:
            weights, arguments = load_network(path)
        verification = verify(weights, arguments.function())
    for number, network in enumerate(TABLE_I, 1):
        template, command = "table1.accuracy_trained_{name}", f"lightloom onn train --scenario {number}"
        record = kept(f"scenario-{number}")
        if number > 1 and record is not None:
            why = _trained_once(record, f"{command} --batch {record['recipe']['batch']}")
            yield PAPER.claim(template, round(100 * record["accuracy"], 2), name=name(network), why=why)
        elif number > 1:
            yield PAPER.claim(template, None, name=name(network), area=network.area(units=False), command=command)
        elif verification is None:
            yield PAPER.claim(template, None, name=name(network), why=f"no weights are kept; {command} trains them")
        else:
            values = {"name": name(network), "verification": verification, "command": command}
            yield PAPER.claim(template, 100 * verification.accuracy, **values)


def _trained_once(record: Any, command: str) -> str:
    """Return how far a training came, of a record that is kept beside the weights of others."""
    epochs = f"{record['epochs']} of {record['recipe']['epochs']} epochs"
    return (
        f"trained for {epochs}, {record['cpu_seconds']:.0f} CPU seconds of one core, and stopped there: "
        f"{record['wrong_outputs']:,} wrong of all {record['checked_inputs']:,} inputs, not converged; "
        f"a kept record. {command} repeats the training"
    )


def best(noise: Any, kind: str, units: str = "any") -> Any:
    """Return the network of one kind with the highest noise limit (trained ones with noise only), or None."""
    rows = [row for row in noise["networks"] if row["kind"] == kind and units in ("any", row["nonlinearity"])]
    rows = [row for row in rows if row["name"] != _WEIGHTS]
    return max(rows, key=lambda row: row["noise_limit"], default=None)


def _noise(noise: Any) -> Iterator[Claim]:
    for units, label in (("any", "any_units"), ("relu", "relu")):
        template = f"example.noise_constructed_over_trained_{label}"
        ours = None if noise is None else best(noise, "constructed", units)
        rival = None if noise is None else best(noise, "trained", units)
        if ours is None or rival is None:
            yield PAPER.claim(template, None)
            continue
        ratio = ours["noise_limit"] / rival["noise_limit"]
        area = 100 * ours["mzi_count"] / rival["mzi_count"]
        verdict = "met" if ratio >= TARGET_TOLERANCE and area < TARGET_AREA else "missed"
        if TARGET_TOLERANCE * rival["noise_limit"] > noise["bound"]:
            verdict += f": noise on the inputs alone allows no network more than {noise['bound']:.2g}"
        why = (
            f"99.99 % right up to {ours['noise_limit']:.2g} of every signal's full scale ({ours['name']}, "
            f"{ours['mzi_count']:,} MZIs) against {rival['noise_limit']:.2g} (trained with noise: {rival['name']}, "
            f"{rival['mzi_count']:,} MZIs), {area:.2g} % of the MZIs. Our target, {TARGET_TOLERANCE:g} times the "
            f"noise at under {TARGET_AREA:g} % of the MZIs, is {verdict}. The paper leaves noise open"
        )
        yield PAPER.claim(template, round(ratio, 2), why=why)
