"""From YAML to points: the product of lists, each point once, complaints that name the place."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.configfile import read_yaml
from lightloom.core.errors import InputError
from lightloom.planning.sweeps.experiment import CollectivePoint, PlanPoint, points_of, read_experiment, schema
from tests.sweeps.experiments import PLANS, SMALL, points, written

_RING = "fabric: wdm-ring, ranks: 8, nbytes: 1kB"


def test_a_block_is_the_product_of_its_lists(tmp_path: Path) -> None:
    found = [each for each in points(tmp_path, SMALL).values() if each.site.name == "wdm-ring"]
    said = {
        (each.kind, each.site.ranks, each.site.settings, each.nbytes, each.algorithm)
        for each in found
        if isinstance(each, CollectivePoint)
    }
    wanted = product(
        ("all-gather", "all-reduce"),
        (4, 6, 8),
        ("wavelengths=2", "wavelengths=4"),
        (1e3, 1e6),
        ("ring", "halving-doubling", "optree"),
    )
    assert said == set(wanted)
    assert len(found) == len(said)


def test_points_of_several_blocks_stand_once(tmp_path: Path) -> None:
    block = f"{{kind: [all-gather, all-reduce], {_RING}, algorithm: [ring, ring]}}"
    once = points(tmp_path, f"name: once\ncollectives: [{block}]")
    twice = points(tmp_path, f"name: twice\ncollectives: [{block}, {block}]")
    assert len(once) == 2
    assert list(once) == list(twice)


def test_settings_reach_into_parts(tmp_path: Path) -> None:
    block = "kind: all-reduce, fabric: optical-averager, ranks: 4, nbytes: 1MB, set: {averaging.bits: [4, 8]}"
    found = points(tmp_path, f"name: bits\ncollectives: [{{{block}, algorithm: in-network}}]").values()
    assert [each.site.fabric.stated_fields()["averaging"]["bits"] for each in found] == [4, 8]  # type: ignore[index]


def test_all_is_every_algorithm_and_strategy(tmp_path: Path) -> None:
    from lightloom.collectives.registry import algorithms
    from lightloom.planning.parallelism.plan import STRATEGIES

    found = points(tmp_path, "name: all\nplans: [{model: hdc, cluster: terarack-64, algorithm: all, strategy: all}]")
    tried = [(each.strategy, each.algorithm) for each in found.values() if isinstance(each, PlanPoint)]
    assert tried == list(product(STRATEGIES, algorithms()))


def test_sizes_of_a_rank_grow_with_the_ranks(tmp_path: Path) -> None:
    text = "name: sizes\ncollectives: [{kind: all-gather, fabric: ring, ranks: [4, 8], nbytes_per_rank: 1kB}]"
    found = points(tmp_path, text).values()
    assert {each.nbytes / each.site.ranks for each in found if isinstance(each, CollectivePoint)} == {1000.0}


def test_what_one_value_of_several_makes_impossible_is_kept_with_its_reason(tmp_path: Path) -> None:
    text = (
        "name: odd\ncollectives: [{kind: all-gather, fabric: wdm-ring, ranks: 8, nbytes: 1kB, algorithm: ring, "
        "set: {wavelengths: [0, 4]}}]"
    )
    first, second = points(tmp_path, text).values()
    assert first.site.place is None
    assert "wavelengths" in first.site.why
    assert second.site.place is not None


def test_a_changed_fabric_file_is_another_point(tmp_path: Path) -> None:
    text = "name: file\ncollectives: [{kind: all-gather, fabric: mine.yaml, ranks: 8, nbytes: 1kB, algorithm: ring}]"
    keys = set()
    for bandwidth in ("40Gbps", "40 Gb/s", "50Gbps"):
        fabric = f"kind: wdm-ring\nwavelengths: 4\nwavelength_bandwidth: {bandwidth}\nreconfiguration_time: 1us\n"
        written(tmp_path, fabric, "mine.yaml")
        keys |= set(points(tmp_path, text))
    assert len(keys) == 2


def test_a_changed_model_file_is_another_point(tmp_path: Path) -> None:
    text = "name: file\nplans: [{model: 'mine.py:build', cluster: terarack-64, algorithm: ring, strategy: ddp}]"
    keys = set()
    for content in ("build = 1", "build = 2", "build = 1"):
        written(tmp_path, content, "mine.py")
        keys |= set(points(tmp_path, text))
    assert len(keys) == 2


def test_every_field_of_a_point_is_in_its_key(tmp_path: Path) -> None:
    from dataclasses import fields, replace

    for first in (
        next(iter(points(tmp_path, SMALL).values())),
        next(iter(points(tmp_path, f"name: x{PLANS}").values())),
    ):
        for field in fields(first):
            if field.name not in ("site", "workload"):
                value = getattr(first, field.name)
                other = (not value) if isinstance(value, bool) else (value or 0) + 1 if _number(value) else "other"
                changed: Any = {field.name: other}
                assert replace(first, **changed).key != first.key, field.name


def _number(value: object) -> bool:
    return value is None or isinstance(value, (int, float))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected a mapping"),
        ("name: [", "not YAML"),
        ("name: x", "nothing to compute"),
        ("collectives: []", "field 'name' is missing"),
        ("name: ../x\ncollectives: []", "field 'name': '../x': String should match"),
        ("name: x\nsizes: 1", "unknown field 'sizes'"),
        (
            f"name: x\ncollectives: [{{kind: all-gather, {_RING}, size: 1}}]",
            "collectives[0]: unknown field 'size': expected one",
        ),
        (f"name: x\ncollectives: [{{{_RING}}}]", "collectives[0]: field 'kind' is missing"),
        (f"name: x\ncollectives: [{{kind: [], {_RING}}}]", "collectives[0]: field 'kind': []: expected a value"),
        ("name: x\ncollectives: [{kind: all-gather, nbytes: 1}]", "collectives[0]: expected 'fabric' or 'cluster'"),
        ("name: x\ncollectives: [{kind: all-gather, fabric: ring, nbytes: 1}]", "expected 'ranks'"),
        ("name: x\ncollectives: [{kind: all-gather, fabric: ring, ranks: 8}]", "expected 'nbytes'"),
        ("name: x\ncollectives: [{kind: all-gather, fabric: ring, ranks: 1, nbytes: 1}]", "'ranks.0': 1:"),
        ("name: x\ncollectives: [{kind: all-gather, fabric: ring, ranks: 8, nbytes: 1 MiBB}]", "unit 'MiBB'"),
        (f"name: x\ncollectives: [{{kind: all-gathr, {_RING}}}]", "unknown collective 'all-gathr': did you mean"),
        (f"name: x\ncollectives: [{{kind: all-gather, {_RING}, algorithm: rnig}}]", "unknown algorithm 'rnig'"),
        (f"name: x\ncollectives: [{{kind: all-gather, {_RING}, cost_model: papr}}]", "unknown cost model 'papr'"),
        (f"name: x\ncollectives: [{{kind: all-gather, {_RING}, set: {{colour: [1, 2]}}}}]", "unknown field 'colour'"),
        ("name: x\ncollectives: [{kind: all-gather, fabric: rnig, ranks: 8, nbytes: 1}]", "unknown fabric 'rnig'"),
        ("name: x\nplans: [{model: hdc}]", "plans[0]: expected 'cluster'"),
        ("name: x\nplans: [{model: hdcc, cluster: terarack-64}]", "plans[0]: unknown model 'hdcc'"),
        ("name: x\nplans: [{model: hdc, cluster: terarack-65}]", "unknown cluster 'terarack-65'"),
        ("name: x\nplans: [{model: hdc, cluster: terarack-64, strategy: zero}]", "unknown strategy 'zero'"),
        ("name: x\nplans: [{model: hdc, cluster: terarack-64, overlap: maybe}]", "'overlap.0': 'maybe'"),
        ("name: x\nplans: [{model: 'no.py:build', cluster: terarack-64}]", "cannot read model file"),
        ("name: x\nplans: [{model: 'no.such:build', cluster: terarack-64}]", "there is no module 'no.such'"),
        ("name: x\nplans: {model: hdc}", "'plans'"),
    ],
)
def test_bad_input_names_file_place_and_expectation(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        points_of(read_experiment(path))
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*none\.yaml"):
        read_experiment(tmp_path / "none.yaml")


def test_the_schema_knows_every_field_of_the_example_and_both_ways_to_say_it() -> None:
    example = Path(__file__).parents[2] / "examples" / "sweep.yaml"
    read_experiment(example)
    document = schema()
    data = read_yaml(example)
    assert data.keys() <= document["properties"].keys()
    for part in ("collectives", "plans"):
        name = document["properties"][part]["items"]["$ref"].rpartition("/")[2]
        fields = document["$defs"][name]["properties"]
        for block in data[part]:
            assert block.keys() <= fields.keys()
        for field, said in fields.items():
            if field != "set":
                one, several = said["anyOf"]
                assert several["items"] == one
                assert several["minItems"] == 1
