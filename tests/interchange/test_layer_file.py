"""Layer files: compute times as measured times, exchanges with kind, bytes and group; no layer is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightloom.core.errors import InputError
from lightloom.models.files.model_file import FileRequest
from lightloom.models.files.read import read_model_file
from lightloom.models.traces.layer_file import read_layer_file

DATA = """DATA
2
conv1\t-1\t13003\tNONE\t0\t12864\tNONE\t0\t32291\tALLREDUCE\t37632\t3229
fc -1 16416 NONE 0 27708 NONE 0 9220 ALLREDUCE 8192000 922
"""
HYBRID = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 all_gpus: 32 pp_comm 4096
3
attention -1 752000 ALLREDUCE 20971520 752000 ALLREDUCE 20971520 1 NONE 0 100
mlp -1 750000 ALLTOALL_EP 4096 750000 NONE 0 1 REDUCESCATTER 8192 100
mlp -1 750000 NONE 0 750000 NONE 0 1 NONE 0 100
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "work.txt"
    path.write_text(text)
    return path


def test_times_are_measured_times_and_gradients_are_parameters(tmp_path: Path) -> None:
    graph = read_model_file(written(tmp_path, DATA), FileRequest(batch=4)).graph
    assert [each.name for each in graph.operators] == ["conv1", "fc"]
    assert graph.parameters == (37632 + 8192000) // 4
    assert graph.measured is not None
    assert graph.measured.forward == pytest.approx((13003e-9, 16416e-9))
    assert graph.measured.backward == pytest.approx((45155e-9, 36928e-9))


def test_exchanges_keep_kind_bytes_and_group(tmp_path: Path) -> None:
    reading = read_layer_file(written(tmp_path, HYBRID), batch=1)
    found = [(each.kind, each.nbytes, each.group, each.ranks) for each in reading.exchanges]
    assert found == [
        ("all-reduce", 20971520, "tensor", 8),
        ("all-reduce", 20971520, "tensor", 8),
        ("all-to-all", 4096, "expert", None),
        ("reduce-scatter", 8192, "data", 4),
    ]
    text = " ".join(reading.unrecorded)
    assert "listed and not replayed" in text and "pp_comm 4096: not used" in text
    assert [each.name for each in reading.graph.operators] == ["attention", "mlp", "mlp#2"]
    (warning,) = reading.graph.uncounted
    assert "take no time in the plan" in warning and "2 x all-reduce in group 'tensor' of 8 ranks: 40 MiB" in warning
    assert "reduce-scatter" not in warning and not read_layer_file(written(tmp_path, DATA), batch=1).graph.uncounted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (DATA.replace("DATA", "DATA_REORDER"), "line 1: 'DATA_REORDER': expected one of DATA, MODEL"),
        (DATA.replace("\n2\n", "\n3\n"), "states 3 layers and has 2 lines"),
        (DATA.replace("16416", "fast"), "line 4: 'fast': expected a number"),
        (DATA.replace(" 922\n", "\n"), "line 4: 11 columns: expected 12"),
        (
            DATA.replace("fc -1 16416 NONE", "fc -1 16416 SHUFFLE"),
            "line 4: exchange 'SHUFFLE': expected NONE",
        ),
        (DATA.replace("DATA", "MICRO"), "exchanges alone, which are no model"),
    ],
)
def test_malformed_files_are_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError) as refusal:
        read_model_file(written(tmp_path, text), FileRequest(batch=1))
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)
