"""From a spec to a graph: the cache, user models, plug-ins, and what is said when something is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import InputError, UnknownNameError, WorkloadError
from lightloom.core.files import source_hash
from lightloom.models import zoo
from lightloom.models.zoo import ZOO, load_workload, resolve, trace_key

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_transformer.py"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def nothing_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "shipped_graph", lambda *_: None)


def test_the_second_load_is_fast_and_needs_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    first = load_workload("optinc-llama", batch=32, sequence_length=64)
    code = (
        "import sys, time; from lightloom.models.zoo import load_workload; start = time.perf_counter();"
        "graph = load_workload('optinc-llama', batch=32, sequence_length=64);"
        "print('torch' in sys.modules, time.perf_counter() - start < 0.5, graph.forward_flops)"
    )
    assert run(code) == f"False True {first.forward_flops}"


@pytest.mark.usefixtures("nothing_shipped")
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"schema": "lightloom.graph/1"}'])
def test_a_damaged_cache_file_is_ignored_and_rewritten(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    good = load_workload("hdc", batch=5)
    (file,) = (tmp_path / "workloads").iterdir()
    intact = file.read_bytes()
    file.write_bytes(content)
    assert load_workload("hdc", batch=5) == good
    assert file.read_bytes() == intact


@pytest.mark.usefixtures("nothing_shipped")
def test_a_trace_is_kept_for_the_torch_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    for version in ("2.6.0", "2.13.0", "2.13.0"):
        monkeypatch.setattr(zoo, "torch_version", lambda version=version: version)
        load_workload("hdc", batch=5)
    names = sorted(file.name for file in (tmp_path / "workloads").iterdir())
    assert [name.rpartition("-")[2] for name in names] == ["2.13.0.json", "2.6.0.json"]


@pytest.mark.usefixtures("nothing_shipped")
def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path / "file"))
    assert load_workload("hdc", batch=5).batch == 5


@pytest.mark.parametrize("changed", ["graph.py", "operator_words.py", "torch/recorder.py", "torch/zoo/resnet.py"])
def test_the_cache_is_of_this_tracer_and_form_of_graphs(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source_hash.cache_clear()
    before, read, source = trace_key(ZOO["hdc"], None), Path.read_bytes, Path(zoo.__file__).parent / changed
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * (path == source))
        source_hash.cache_clear()
        assert trace_key(ZOO["hdc"], None) != before
    source_hash.cache_clear()
    assert trace_key(ZOO["hdc"], None) == before


@pytest.mark.long
def test_each_sequence_length_has_its_own_entry() -> None:
    short, long = (load_workload("optinc-llama", batch=2, sequence_length=n) for n in (32, 64))
    assert short.parameters == long.parameters
    assert long.operator("head").forward_flops == 2 * short.operator("head").forward_flops
    assert load_workload("optinc-llama", batch=2, sequence_length=256) == load_workload("optinc-llama", batch=2)


@pytest.mark.long
def test_the_example_traces_from_its_path() -> None:
    graph = load_workload(f"{EXAMPLE}:build", batch=4, sequence_length=128)
    assert graph.batch == 4
    assert graph.parameters == sum(p.numel() for p in resolve(f"{EXAMPLE}:build")().parameters())
    assert sum(op.kind == "attention" for op in graph.operators) == 12


MODELS = """
import torch
from torch import nn
from beside import WIDTH

print("hello from the model")

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, 2)
        self.rates = [x.item() for x in torch.linspace(0, 1, 3)]  # needs values, not only shapes
    def forward(self, x):
        return self.fc(x)

class WithInputs(Own):
    def example_inputs(self, batch):
        return torch.empty(batch, WIDTH)

def pair(): return Own(), torch.empty(3, WIDTH)
def keywords(): return Own(), {"x": torch.empty(3, WIDTH)}
def bare(): return Own()
def number(): return 3
def broken(): raise KeyError("lost")
def leaves(): raise SystemExit(4)
def wrong_shape(): return Own(), torch.empty(3, WIDTH + 1)
def no_tensor(): return Own(), ()
instance = WithInputs()
constant = 5
"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("WIDTH = 7\n")
    file = tmp_path / "own_models.py"
    file.write_text(MODELS)
    return file


@pytest.mark.parametrize("name", ["pair", "keywords", "WithInputs", "instance"])
def test_user_factories(name: str, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = load_workload(f"{models}:{name}", batch=6)
    assert (graph.batch, graph.parameters) == (6, 16)
    assert graph.operator("fc").forward_flops == 2 * 6 * 7 * 2
    assert capsys.readouterr().out == ""  # stdout is for the program's own document
    assert str(models.parent) not in sys.path


def test_modules_are_found_from_the_working_folder(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models.parent)
    assert load_workload("own_models:pair", batch=2).parameters == 16


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bare", "example_inputs(batch)"),
        ("number", "returned a int; expected a torch.nn.Module"),
        ("broken", "the factory fails: KeyError: 'lost'"),
        ("leaves", "the factory fails: SystemExit: 4"),
        ("wrong_shape", "fails on meta tensors in module 'fc' (Linear), own_models.py line 14: RuntimeError"),
        ("no_tensor", "the first example input must be a tensor"),
        ("constant", "is a int; expected a torch.nn.Module"),
        ("absent", "has no 'absent'; it has Own, WithInputs, bare"),
    ],
)
def test_a_bad_factory_is_one_clear_line(name: str, words: str, models: Path) -> None:
    with pytest.raises(WorkloadError) as caught:
        load_workload(f"{models}:{name}", batch=2)
    message = str(caught.value)
    assert f"own_models.py:{name}" in message
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nowhere.py:build", "there is no file 'nowhere.py'"),
        ("nowhere.module:build", "cannot import 'nowhere.module': ModuleNotFoundError"),
        ("file.py", "expected package.module:factory or path/file.py:factory"),
        (":build", "names no factory"),
        ("json:", "names no factory"),
        ("C:\\models\\config.json", "is no file here and names no factory"),
        ("models/a.txt:build", "is no file here and names no factory"),
    ],
)
def test_a_bad_spec_is_one_clear_line(spec: str, words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        load_workload(spec, batch=2)


def test_a_file_that_cannot_be_read_as_python(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def build(:\n")
    with pytest.raises(WorkloadError, match="SyntaxError"):
        load_workload(f"{tmp_path / 'bad.py'}:build", batch=2)


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'resnet50'"):
        load_workload("resnet-50", batch=2)


@pytest.mark.parametrize(("batch", "sequence"), [(0, None), (-1, None), (True, None), (2, 0)])
def test_sizes_are_positive(batch: int, sequence: int | None) -> None:
    with pytest.raises(InputError, match="expected a whole number"):
        load_workload("gpt2-355m", batch=batch, sequence_length=sequence)


def test_images_have_no_sequence_length() -> None:
    with pytest.raises(WorkloadError, match="takes no sequence length, its sample is image 3 x 224 x 224"):
        load_workload("alexnet", batch=2, sequence_length=16)


def test_a_sequence_can_be_too_long() -> None:
    with pytest.raises(WorkloadError, match="exceeds the context of 1024"):
        load_workload("gpt2-355m", batch=2, sequence_length=2048)


def test_plug_ins_add_models(monkeypatch: pytest.MonkeyPatch) -> None:
    from .models import Vision

    found: dict[str, Any] = {"vision": Vision}
    monkeypatch.setattr(zoo, "load_plugins", lambda group: found if group == "models" else {})
    assert load_workload("vision", batch=3).name == "vision"
    with pytest.raises(UnknownNameError, match="did you mean 'vision'"):
        load_workload("visio", batch=3)


@pytest.mark.parametrize(("spec", "length"), [("gpt2-355m", 512), (f"{EXAMPLE}:build", None)])
def test_without_torch_the_message_says_what_to_install(
    spec: str, length: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from lightloom.models.zoo import load_workload\n"
        "try:\n"
        f"    load_workload({spec!r}, batch=2, sequence_length={length})\n"
        "except ValueError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    said = run(code)
    assert said.startswith(f"WorkloadError {spec}: needs PyTorch")
    assert "lightloom[torch]" in said


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise RuntimeError()", "cannot import 'PLACE': RuntimeError: no message"),
        ("raise RuntimeError('  first\\nsecond')", "cannot import 'PLACE': RuntimeError: first"),
        ("raise SystemExit('over')", "cannot import 'PLACE': SystemExit: over"),
        ("", "'PLACE' has no 'build'"),
        ("from json import loads\n_own = build_ = lambda: 0\n", "'PLACE' has no 'build'; it has build_"),
        (
            "".join(f"def f{number}(): ...\n" for number in reversed(range(12))),
            "'PLACE' has no 'build'; it has f0, f1, f10, f11, f2, f3, f4, f5, f6, f7",
        ),
    ],
)
def test_a_file_without_the_factory_says_why_and_leaves_nothing_behind(tmp_path: Path, code: str, words: str) -> None:
    path = tmp_path / "model.py"
    path.write_text(code)
    before = list(sys.path), len(sys.modules)
    with pytest.raises(WorkloadError) as refused:
        resolve(f"{path}:build")
    assert str(refused.value) == f"{path}:build: {words.replace('PLACE', str(path))}"
    assert sys.path == before[0]
    assert ("cannot import" in words) == (len(sys.modules) == before[1])


@pytest.mark.parametrize("spec", ["a b:build", "module:1st", "module:", ":build", "module.:build", "file.py:a b"])
def test_what_names_no_factory_is_refused_before_any_import(spec: str) -> None:
    with pytest.raises(WorkloadError, match="is no file here and names no factory"):
        resolve(spec)


def test_attributes_of_attributes_are_factories_too() -> None:
    assert resolve("pathlib:Path.cwd")() == Path.cwd()
    with pytest.raises(WorkloadError, match=r"'pathlib' has no 'Path\.walked'"):
        resolve("pathlib:Path.walked")
