"""A calibration file serves wherever an accelerator is named, and says that it is one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import lightloom as ll
from lightloom.core.errors import ConfigError
from lightloom.machines.accelerators.kernels import PRIORS
from lightloom.machines.accelerators.load import (
    CATALOG,
    description,
    load_accelerator,
    names,
)
from lightloom.machines.clusters.load import cluster_from, load_cluster
from lightloom.planning.calibration.accuracy import fitted_parameters, read_calibration, write_calibration
from lightloom.planning.calibration.rows import priors_of
from lightloom.planning.pricing.job import belief_of
from lightloom.planning.search.assumptions import assumed_lines, assumptions
from tests.calibration.samples import made_calibration
from tests.cli.commands import run

CLUSTER = "a100-1024-two-tier"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my-a100.yaml"
    write_calibration(made_calibration(gemm_fraction=0.6), path)
    return path


def test_the_file_is_its_accelerator_with_fitted_kernels(file: Path) -> None:
    machine, base = load_accelerator(str(file)), load_accelerator("a100")
    assert machine.name == "my-a100"
    assert machine.kernels is not None and base.kernels is not None
    assert machine.kernels.gemm_fraction == 0.6
    assert machine.kernels.gemm_depth == base.kernels.gemm_depth
    assert machine.calibration == read_calibration(file)
    assert (machine.peak, machine.memory, machine.node_bandwidth) == (base.peak, base.memory, base.node_bandwidth)
    assert machine.flat().calibration is None


def test_every_place_that_names_an_accelerator_takes_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = load_accelerator(str(file))
    parts = {"ranks": 8, "accelerator": "my-a100.yaml", "fabric": "switch"}
    assert cluster_from(parts, name="mine", folder=file.parent).accelerator == wanted
    assert load_cluster(CLUSTER, set={"accelerator": str(file)}).accelerator == wanted
    assert ll.load_cluster(CLUSTER, accelerator=file).accelerator == wanted
    assert ll.load_cluster(CLUSTER, accelerator=wanted).accelerator == wanted
    # A file that is set lies relative to the working directory, not to the catalog.
    monkeypatch.chdir(file.parent)
    assert load_cluster(CLUSTER, set={"accelerator": "my-a100.yaml"}).accelerator == wanted


def test_settings_reach_into_it_whatever_their_order(file: Path) -> None:
    changes = {"accelerator.memory": "40 GB", "accelerator": str(file)}
    machine = load_cluster(CLUSTER, set=changes).accelerator
    assert (machine.memory, machine.name) == (40e9, "my-a100")
    assert machine.calibration is not None


@pytest.mark.parametrize("setting", [{"accelerator.kernels.gemm_depth": 500}, {"accelerator.efficiency": 0.4}])
def test_kernels_that_are_set_are_not_called_calibrated(file: Path, setting: dict[str, float]) -> None:
    machine = load_cluster(CLUSTER, set={"accelerator": str(file), **setting}).accelerator
    assert machine.calibration is None
    assert "calibration" not in machine.sources


def test_plans_say_that_they_are_calibrated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    words = (
        "plan",
        "resnet50",
        "--cluster",
        CLUSTER,
        "--ranks",
        "8",
        "--strategy",
        "ddp",
        "--no-what-if",
        "--assumptions",
    )
    told = run(monkeypatch, capsys, *words, "--algorithm", "ring", "--accelerator", str(file))
    assert (told.code, told.err) == (0, "")
    line = "calibrated: my-a100: 12 steps of made-up (SHA-256 abababababab...), cross-validated error 5.0%"
    assert line in " ".join(told.out.split())
    priors = run(monkeypatch, capsys, *words, "--algorithm", "ring", "--accelerator", "a100")
    assert "calibrated: " not in priors.out
    assert "accelerator.kernels gemm depth 400: assumption" in " ".join(priors.out.split())
    assert "memory fraction 0.82: assumption" in " ".join(priors.out.split())


def test_what_rows_determine_is_no_assumption(file: Path) -> None:
    cluster = ll.load_cluster(CLUSTER, accelerator=file)
    told = assumptions(cluster)
    assert not any(line.startswith("accelerator.kernels.gemm_fraction") for line in told)
    assert any(line.startswith("accelerator.kernels.gemm_depth: assumption") for line in told)
    assert len(assumed_lines([cluster, cluster])) == len(assumed_lines([cluster]))


def test_catalog_files_are_labelled() -> None:
    calibrated = [name for name in names() if load_accelerator(name).calibration is not None]
    assert calibrated == ["a100-calibrated", "h100-calibrated"]
    for name in calibrated:
        calibration = read_calibration(CATALOG / f"{name}.yaml")
        assert len(calibration.rows.sha256) == 64
        fitted = fitted_parameters(calibration, priors_of(load_accelerator(calibration.accelerator)))
        assert len(fitted.logarithms) > len(PRIORS)


def test_the_page_quotes_the_catalog_s_errors() -> None:
    page = (Path(__file__).parents[2] / "docs" / "accelerators.md").read_text()
    for name in ("a100-calibrated", "h100-calibrated"):
        error = read_calibration(CATALOG / f"{name}.yaml").cross_validated
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert line.endswith(f"| {100 * error.mean:.1f} %, median {100 * error.median:.1f} % |")


def without(file: Path, name: str) -> Path:
    """The file as it was written before a parameter was known."""
    fields = description(str(file))
    place = list(fields["parameters"]).index(name)
    del fields["parameters"][name], fields["covariance"][place]
    for row in fields["covariance"]:
        del row[place]
    path = file.with_name(f"older-{file.name}")
    path.write_text(yaml.safe_dump(fields, sort_keys=False))
    return path


@pytest.mark.parametrize("name", ["unaligned", "arithmetic_share"])
def test_older_files_take_the_prior_of_a_newer_parameter(file: Path, name: str) -> None:
    older = without(file, name)
    machine, base = load_accelerator(str(older)), load_accelerator("a100")
    assert machine.kernels is not None and base.kernels is not None
    assert machine.kernels.gemm_fraction == 0.6
    assert machine.kernels.unaligned == base.kernels.unaligned
    priors = priors_of(base)
    fitted, place = fitted_parameters(read_calibration(older), priors), priors.names.index(name)
    assert fitted.logarithms[place] == priors.center[place]
    assert fitted.covariance[place, place] == priors.spread[place] ** 2
    belief = belief_of(machine, load_cluster(CLUSTER, set={"accelerator": str(older)}).fabric)
    assert belief is not None
    lines = " ".join(assumed_lines([load_cluster(CLUSTER, set={"accelerator": str(older)})]))
    assert f"not in that calibration, as it is older: {name}; priors take their places" in lines


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accelerator": "my-a100.yaml"}, "is calibrated itself|nested"),
        ({"accelerator": "titan-xp"}, "field 'accelerator': 'titan-xp' has no kernel model"),
        ({"accelerator": "a100x"}, "unknown accelerator 'a100x'"),
        ({"accelerator": 3}, "field 'accelerator': 3"),
        ({"noise": -1}, "field 'noise'"),
        ({"parameters": {}}, "covariance: expected 0 rows"),
    ],
)
def test_wrong_files_are_refused_in_one_line(file: Path, changes: dict[str, object], message: str) -> None:
    fields = description(str(file)) | changes
    path = file.with_name("other.yaml")
    path.write_text(yaml.safe_dump(fields))
    with pytest.raises(Exception, match=message) as caught:
        load_accelerator(str(path))
    assert isinstance(caught.value, (ConfigError, ValueError))
    assert "\n" not in str(caught.value)
