"""``lightloom bill`` and ``lightloom catalog parts``: tables, documents, and one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import lightloom


def test_a_bill_lists_parts_and_totals() -> None:
    out = lightloom("bill", "tpu-v4", "--ranks", "4096").out
    assert "6,144" in out
    assert "price: at least $ " in out and "no source states the price of copper-cable" in out
    assert len(out.splitlines()) <= 25
    assert "48 planes on 48 switches" not in out
    assert "48 planes x 128 ports / 4,096 ranks" in lightloom("bill", "tpu-v4", "--ranks", "4096", "--explain").out
    whole = ("--set", "switches=whole", "--set", "circuit_switch=palomar-136", "--explain")
    assert "48 planes on 48 switches" in lightloom("bill", "tpu-v4", "--ranks", "4096", *whole).out


def test_the_document_names_what_every_total_lacks() -> None:
    document = json.loads(lightloom("bill", "dgx-h100-64", "--json").out)
    assert document["schema"] == "lightloom.bill/1"
    assert document["dollars_per_rank"]["missing"] == ["price of host-hgx-h100"]
    assert {part["part"] for part in document["parts"]} >= {"board-h100", "host-hgx-h100", "transceiver-400g"}
    assert document["static_watts_per_rank"]["low"] < document["static_watts_per_rank"]["high"]


def test_choices_without_effect_are_said() -> None:
    out = lightloom("bill", "switch", "--ranks", "8", "--set", "copper_cube=4", "--set", "host_links=copper").out
    assert "note: copper_cube changes nothing here" in out
    assert "host_links changes" not in out


def test_parts_are_listed_with_ranges_and_labels() -> None:
    out = lightloom("catalog", "parts", "--all").out
    assert "5.625 pJ/bit (5.625 to 11.25)*" in out
    document = json.loads(lightloom("catalog", "parts", "--json").out)
    missing = {part["name"]: part["missing"] for part in document["parts"]}
    assert missing["nic-800g"] == ["price of nic-800g", "power of nic-800g"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["switch"], "expected a number of ranks"),
        (["swich", "--ranks", "4"], "did you mean 'switch'"),
        (["switch", "--ranks", "64", "--set", "prize=3"], "or a choice of the bill"),
        (["switch", "--ranks", "64", "--set", "link_length=-3"], "link_length"),
        (["circuit-switch", "--ranks", "4096", "--set", "circuit_switch=SMALL"], "three stages join 2"),
        (["circuit-switch", "--ranks", "4", "--set", "circuit_switch=NEGATIVE"], "greater than or equal to 0"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    head = "kind: circuit-switch\ndescription: mine\n"
    (tmp_path / "SMALL.yaml").write_text(head + "radix: 2\n")
    price = "dollars: {value: -5, year: 2025, confidence: read, source: mine}\n"
    (tmp_path / "NEGATIVE.yaml").write_text(head + "radix: 20\n" + price)
    files = {name: str(tmp_path / f"{name}.yaml") for name in ("SMALL", "NEGATIVE")}
    for name, path in files.items():
        arguments = [word.replace(name, path) for word in arguments]
    result = lightloom("bill", *arguments)
    assert result.code == 2
    assert complaint in result.err
    assert result.err.count("\n") == 1
