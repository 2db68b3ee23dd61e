"""Profiles of torch.profiler: operators with their times, and the parameters that they determine."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lightloom as ll
from lightloom.app.api.calibrating import ProfileCalibration
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.models.traces.calls import Call
from lightloom.models.traces.kineto import read_profile
from lightloom.planning.calibration.profile import _CAUSAL, kernel_of, operators_of, predicted_seconds
from tests.calibration.gpu_profile import gpu_profile
from tests.cli.commands import run

TRUE = {"gemm_fraction": 0.6, "gemm_depth": 900.0, "flash_forward": 0.55, "memory_fraction": 0.7}


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


@pytest.fixture(scope="module")
def cpu_profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of a small network, profiled on this machine."""
    torch = pytest.importorskip("torch", reason="needs lightloom[torch]")
    from torch.profiler import ProfilerActivity, profile, schedule

    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1, stride=2), torch.nn.Flatten(), torch.nn.Linear(128, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    times = schedule(wait=0, warmup=1, active=2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=times) as profiler:
        for _ in range(3):
            model(torch.randn(5, 3, 8, 8)).sum().backward()
            optimizer.step()
            profiler.step()
    path = tmp_path_factory.mktemp("profile") / "cpu.json.gz"
    profiler.export_chrome_trace(str(path))
    return path


def test_a_profile_of_the_host_is_read(cpu_profile: Path) -> None:
    profile = read_profile(cpu_profile)
    operators = {(entry.key.name, entry.key.step_pass): entry for entry in operators_of(profile)}
    assert (profile.steps, profile.on_device) == (2, False)
    addmm = operators["aten::addmm", "forward"]
    assert addmm.calls == 2
    assert addmm.key.shapes == ((10,), (5, 128), (128, 10))
    assert addmm.kernel is not None and (addmm.kernel.m, addmm.kernel.n, addmm.kernel.k) == (5, 10, 128)
    forward = operators["aten::convolution", "forward"].kernel
    assert forward is not None and (forward.m, forward.n, forward.k, forward.repeats) == (5 * 4 * 4, 8, 27, 9)
    # Nobody asks for the gradient of the images.
    backward = operators["aten::convolution_backward", "backward"].kernel
    assert backward is not None
    assert (backward.forward, backward.input_gradient, backward.weight_gradient) == (0, 0, 1)
    assert ("aten::mkldnn_convolution", "forward") not in operators
    assert any(step_pass == "update" for _, step_pass in operators)
    assert profile.step_seconds is not None
    assert 0 < sum(entry.seconds for entry in operators.values()) <= 2 * profile.step_seconds * 1.001


def test_times_of_the_host_calibrate_no_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cpu_profile: Path, tmp_path: Path
) -> None:
    shown = run(monkeypatch, capsys, "calibrate", str(cpu_profile), "--accelerator", "a100")
    assert (shown.code, shown.err) == (0, "")
    assert "convolution" in shown.out and "nothing fitted" in shown.out
    out = tmp_path / "a100.yaml"
    words = ("calibrate", str(cpu_profile), "--accelerator", "a100", "--out", str(out))
    refused = run(monkeypatch, capsys, *words)
    assert refused.code == 2 and "holds no GPU kernels" in refused.err and refused.err.count("\n") == 1
    assert not out.exists()


def test_kernels_belong_to_the_operators_that_launched_them(tmp_path: Path) -> None:
    document = gpu_profile()
    stray = {"ph": "X", "cat": "kernel", "name": "triton_", "ts": 0, "dur": 100, "args": {"correlation": 10**6}}
    document["traceEvents"].append(stray)
    profile = read_profile(write(tmp_path / "gpu.json", document))
    assert profile.devices == ("NVIDIA A100-SXM4-80GB",)
    assert profile.unattributed_seconds == pytest.approx(100e-6)
    operators = operators_of(profile)
    assert len(operators) == 11 and all(entry.calls == 2 for entry in operators)
    assert sum(entry.seconds for entry in operators) == pytest.approx(profile.device_seconds - 100e-6)
    assert all(list(entry.kernels) == [f"kernel_of_{entry.key.name}"] for entry in operators)


@pytest.fixture(scope="module")
def gpu_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("profiles") / "gpu.json", gpu_profile(TRUE))


@pytest.fixture(scope="module")
def fitted(gpu_path: Path) -> ProfileCalibration:
    return ll.calibrate(accelerator="a100", profile=gpu_path)


@pytest.mark.long
def test_true_parameters_are_found_and_others_stay(fitted: ProfileCalibration, tmp_path: Path) -> None:
    parameters = fitted.calibration.parameters
    for name, value in TRUE.items():
        # Depth and fraction of products trade against each other, and the prior of the fraction holds it back.
        assert parameters[name].value == pytest.approx(value, rel=0.12 if name == "gemm_depth" else 0.04), name
        assert parameters[name].determined, name
    for name in set(parameters) - set(TRUE):
        assert parameters[name].value == pytest.approx(parameters[name].prior), name
        assert not parameters[name].determined, name
    assert fitted.calibration.cross_validated.mean < 0.05
    assert fitted.calibration.rows.line().startswith("11 operators of gpu.json")
    file = fitted.save(tmp_path / "my-a100.yaml")
    machine = load_accelerator(str(file))
    assert machine.kernels == fitted.accelerator.kernels
    assert machine.kernels is not None and machine.kernels.gemm_fraction == parameters["gemm_fraction"].value


def test_a_model_that_made_the_profile_predicts_it(tmp_path: Path) -> None:
    rows = ll.calibrate(accelerator="a100", profile=write(tmp_path / "gpu.json", gpu_profile())).rows()
    assert len(rows) == 11
    for row in rows:
        assert row["predicted_s"] == pytest.approx(row["measured_s"])
        assert row["calls_per_step"] == 1
    assert sum(row["share"] for row in rows) == pytest.approx(1)


@pytest.mark.long
def test_the_command_prints_the_api_s_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gpu_path: Path, fitted: ProfileCalibration
) -> None:
    told = run(monkeypatch, capsys, "calibrate", str(gpu_path), "--accelerator", "a100", "--json")
    assert json.loads(json.dumps(fitted.to_json())) == json.loads(told.out)
    assert "\n" not in repr(fitted) and "<table>" in fitted._repr_html_()
    assert len(fitted.to_dataframe()) == 11
    assert any("gemm_fraction 0.85 to 0.6" in line for line in fitted.remarks())


def test_places_of_is_causal_are_pytorch_s() -> None:
    torch = pytest.importorskip("torch", reason="needs lightloom[torch]")
    for word, (first, place) in _CAUSAL.items():
        arguments = getattr(torch.ops.aten, word).default._schema.arguments
        tensors = [entry.name for entry in arguments if "Tensor" in str(entry.type)]
        assert tensors[first] == "query" and arguments[place].name == "is_causal", word


def test_operators_of_unknown_traffic_have_no_price() -> None:
    call = Call(0, "aten::index", "aten::index", -1, [], [], [])
    assert kernel_of(call) is None


def broken(**changes: object) -> dict[str, Any]:
    """The made-up profile with fields of its first product changed."""
    document = gpu_profile(steps=1)
    event = next(event for event in document["traceEvents"] if event["name"] == "aten::mm")
    event["args"] |= {key: value for key, value in changes.items() if key[0].isupper()}
    event |= {key: value for key, value in changes.items() if key[0].islower()}
    return document


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "line 1, column 2: not JSON"),
        ("[1]", "entry 0 of traceEvents: expected an object"),
        ('{"nodes": []}', "expected a profile of torch.profiler"),
        ('{"traceEvents": []}', "holds no operator"),
        (broken(dur=-3), r"entry 1 of traceEvents \('aten::mm'\): field 'dur': -3"),
        (broken(dur="long"), "field 'dur': 'long'"),
        (broken(ts=None), "field 'ts': None"),
        (broken(name=""), "field 'name'"),
        (broken(**{"Input Dims": [[-1, 2], [2, 2]]}), r"'Input Dims': \[-1, 2\]"),
        (broken(**{"Input Dims": 3}), "expected lists"),
        (broken(**{"Input Dims": [[2, 2]]}), "1 'Input Dims' and 2 'Input type'"),
    ],
)
def test_bad_profiles_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: Any, message: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    told = run(monkeypatch, capsys, "calibrate", str(path), "--accelerator", "a100")
    assert (told.code, told.out) == (2, "")
    assert told.err.count("\n") == 1 and str(path) in told.err
    with pytest.raises(ll.LightloomError, match=message):
        ll.calibrate(accelerator="a100", profile=path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "not a whole gzip file"),
        (b"plain", "not a gzip file, as its suffix says"),
        (gzip.compress(b"\xff\xfe{}", mtime=0), "not JSON"),
    ],
)
def test_bad_archives_are_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.json.gz"
    path.write_bytes(content)
    with pytest.raises(ll.LightloomError, match=message):
        ll.calibrate(accelerator="a100", profile=path)


def test_a_profile_without_shapes_says_how_to_make_one(tmp_path: Path) -> None:
    document = gpu_profile(steps=1)
    for event in document["traceEvents"]:
        event["args"].pop("Input Dims", None)
        event["args"].pop("Input type", None)
    with pytest.raises(ll.LightloomError, match="profile again with record_shapes=True"):
        ll.calibrate(accelerator="a100", profile=write(tmp_path / "bare.json", document))


def test_too_few_operators_and_no_kernel_model(tmp_path: Path) -> None:
    document = gpu_profile(steps=1)
    document["traceEvents"] = document["traceEvents"][:7]
    path = write(tmp_path / "few.json", document)
    assert "2 operators that take" in str(ll.calibrate(accelerator="a100", profile=path).refusal)
    with pytest.raises(ll.LightloomError, match="has no kernel model"):
        ll.calibrate(accelerator="titan-xp", profile=path)


def test_a_profile_of_an_h100_is_priced_as_its_kernels_were() -> None:
    """GPT-2 of 355 million parameters, 8 samples under autocast, as ``benchmarks.gpu.steps`` profiled it."""
    profile = read_profile(Path(__file__).parent / "data" / "gpt2-h100.json.gz")
    assert (profile.steps, profile.on_device) == (1, True)
    operators = [entry for entry in operators_of(profile) if entry.key.name.endswith("mm")]
    seconds = predicted_seconds(operators, load_accelerator("h100"))
    measured = np.array([entry.mean_seconds for entry in operators])
    of_head = np.array([50257 in sum(entry.key.shapes, ()) for entry in operators])
    assert of_head.sum() == 3
    # Their rows are not aligned: aligned products of that size would take a fifth.
    assert seconds[of_head] == pytest.approx(measured[of_head], rel=0.15)
    gradients = [entry.kernel for entry in operators if entry.kernel is not None and entry.kernel.weight_gradient]
    assert {kernel.m for kernel in gradients} == {8 * 1024}
    assert len(gradients) == 5
