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
        (DATA.replace("\n2\n", "\n1\n"), "states 1 layers and has 2 lines"),
        (DATA.replace("16416", "-1"), "line 4: '-1': expected a number of at least 0"),
        (DATA.replace("16416", "inf"), "line 4: 'inf': expected a number of at least 0"),
        (DATA.replace("8192000", "many"), "line 4: 'many': expected a number of at least 0"),
    ],
)
def test_malformed_files_are_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError) as refusal:
        read_model_file(written(tmp_path, text), FileRequest(batch=1))
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: '': expected one of DATA"),
        ("DATA\n", "line 2: expected the number of layers"),
        ("\n\nDATUM\n", "line 3: 'DATUM': expected one of DATA"),
        ("\nDATA\n\n2 3\n", "line 4: expected the number of layers"),
        ("\n\nDATA\n", "line 4: expected the number of layers"),
        ("DATA\n2 3\n", "line 2: expected the number of layers"),
        ("DATA\n-1\n", "line 2: expected the number of layers"),
    ],
)
def test_heads_that_say_nothing_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_layer_file(written(tmp_path, text), batch=1)
    with pytest.raises(InputError, match="has no operators"):
        read_layer_file(written(tmp_path, "DATA\n0\n"), batch=1)


LINE = "net -1 1 ALLREDUCE 400 2 ALLGATHER 80 4 {sum} 1000 8\n"


@pytest.mark.parametrize(
    ("header", "kind", "groups", "parameters", "unpriced"),
    [
        ("DATA", "ALLREDUCE", [("data", None)] * 3, 250, 2),
        ("DATA model_parallel_NPU_group: 2 all_gpus: 12", "ALLREDUCE", [("data", 6)] * 3, 250, 2),
        ("MODEL model_parallel_NPU_group: 2", "ALLREDUCE", [("model", None)] * 3, 0, 3),
        ("HYBRID_DLRM model_parallel_NPU_group: 2 all_gpus: 12", "REDUCESCATTER", [("tensor", 2)] * 2 + [("data", 6)],
         250, 2),
        ("HYBRID_DLRM", "ALLGATHER", [("tensor", None)] * 2 + [("data", None)], 0, 3),
        ("MODEL", "ALLREDUCE_DP_EP", [("model", None)] * 2 + [("data, of experts", None)], 0, 3),
        ("MODEL", "allreduce_tp", [("model", None)] * 2 + [("tensor", None)], 0, 3),
        ("MODEL", "ALLREDUCE_ZZ", [("model", None)] * 3, 0, 3),
    ],
)  # fmt: skip
def test_policies_say_who_exchanges_and_sums_of_gradients_over_replicas_are_parameters(
    tmp_path: Path, header: str, kind: str, groups: list[tuple[str, int | None]], parameters: int, unpriced: int
) -> None:
    found = read_layer_file(written(tmp_path, f"{header}\n1\n{LINE.format(sum=kind)}"), batch=3)
    assert [(each.group, each.ranks) for each in found.exchanges] == groups
    assert [each.nbytes for each in found.exchanges] == [400, 80, 1000]
    assert found.graph.parameters == parameters and found.graph.batch == 3
    assert found.graph.uncounted[0].count(" x ") == len({*groups[:unpriced]}) + (
        unpriced > 1 and groups[0] == groups[1]
    )
    assert found.graph.measured is not None and found.graph.measured.backward == pytest.approx((6e-9,))


def test_what_a_file_states_in_all_is_told(tmp_path: Path) -> None:
    found = read_layer_file(written(tmp_path, HYBRID), batch=2)
    assert found.unrecorded[0] == "3 layers: 2.252 ms forward, 2.252 ms input gradient, 3 ns weight gradient"
    lines = [line for line in found.unrecorded if line.endswith("not used of the file")]
    assert [line.partition(":")[0] for line in lines] == [
        "model_parallel_NPU_group 8",
        "ep 1",
        "pp 1",
        "all_gpus 32",
        "pp_comm 4096",
    ]
    assert "300 ns of updates are left out: the plan prices its own" in found.unrecorded
    nothing = HYBRID.replace(" 100\n", " 0\n").replace("ep: 1", "ep: 0")
    left = read_layer_file(written(tmp_path, nothing), batch=2).unrecorded
    assert not any("updates" in line or line.startswith("ep ") for line in left)
