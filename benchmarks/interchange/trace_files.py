"""Trace files in public repositories, by repository and path; a member is a file inside an archive.

Fetch the repositories into one folder, each as ``owner+name`` (a clone, or its git directory in ``repo``); files are
taken from their newest commit.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HTA, _PARAM = "facebookresearch/HolisticTraceAnalysis", "facebookresearch/param"
_ASTRA, _CHAKRA, _TUTORIALS = "astra-sim/astra-sim", "mlcommons/chakra", "astra-sim/tutorials"
_DATA, _INPUTS = "tests/data", "et_replay/tests/inputs"
_CUSTOM = "examples/system/custom_collectives/custom_ring_allreduce_8npus_1MB"
_MICRO = "examples/workload/microbenchmarks"


class Source(NamedTuple):
    """One file."""

    repository: str
    path: str
    member: str = ""
    """File inside the archive; empty where the file is none."""


SOURCES = (
    Source(_CHAKRA, f"{_DATA}/feeder_tests_trace.tar.gz", "chakra.0.et"),
    Source(_CHAKRA, f"{_DATA}/1.0.2-chakra.0.0.4.tgz", "1.0.2-chakra.0.0.4.json"),
    Source(_CHAKRA, f"{_DATA}/json_trace.tar.gz", "small_chakra.0.json"),
    Source(_ASTRA, f"{_CUSTOM}/custom_allreduce.0.et"),
    Source(_ASTRA, f"{_MICRO}/all_reduce/4npus_1MB/all_reduce.0.et"),
    Source(_ASTRA, f"{_MICRO}/reduce_scatter/16npus_1MB/reduce_scatter.3.et"),
    Source(_TUTORIALS, "micro2024/astra-sim-demo/demo1/allreduce/allreduce.0.et"),
    Source(_TUTORIALS, "micro2024/astra-sim-demo/demo2/workload/MLP_ModelParallel.0.et"),
    Source(_TUTORIALS, "hoti2024/demo3/pytorch_traces/pytorch_et_0.json"),
    Source(_PARAM, f"{_INPUTS}/resnet_et.json.gz"),
    Source(_PARAM, f"{_INPUTS}/linear_et.json.gz"),
    Source(_PARAM, f"{_INPUTS}/1.0.3-chakra.0.0.4/resnet_1gpu_et.json.gz"),
    Source(_PARAM, f"{_INPUTS}/1.1.0-chakra.0.0.4/resnet_2gpu_et.json.gz"),
    Source(_PARAM, f"{_INPUTS}/hf_GPT2_et.json.tar.gz", "hf_GPT2_et.json"),
    Source(_PARAM, f"{_INPUTS}/resnet_kineto.json.gz"),
    Source(_PARAM, f"{_INPUTS}/linear_kineto.json.gz"),
    Source(_HTA, f"{_DATA}/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz"),
    Source(_HTA, f"{_DATA}/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"),
    Source(_HTA, f"{_DATA}/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz"),
    Source(_HTA, f"{_DATA}/distributed_info_unavailable/distributed_info_not_found.json.gz"),
    Source(_HTA, f"{_DATA}/mtia_inference_trace/mtia_inference_rank_0.json.gz"),
    Source(_HTA, f"{_DATA}/nccl_parser_config/nccl_data.json.gz"),
    Source(_HTA, f"{_DATA}/negative_queue_length_values_check/rank0.json.gz"),
    Source(_HTA, f"{_DATA}/rank_non_gpu/rank_non_gpu.json.gz"),
    Source(_HTA, f"{_DATA}/rank_unavailable/rank_not_found.json.gz"),
    Source(_HTA, f"{_DATA}/trace_diff/control/control.json.gz"),
    Source(_HTA, f"{_DATA}/trace_diff/test/test.json.gz"),
    Source(_HTA, f"{_DATA}/trace_file_list/inference_rank_1.json.gz"),
    Source(_HTA, f"{_DATA}/trace_filter/sampled_rank-0.json.gz"),
    Source(_HTA, f"{_DATA}/trace_filter/sampled_rank-1.json.gz"),
    Source(_HTA, f"{_DATA}/triton_example/triton_example.json.gz"),
)


def git_folder(folder: Path, repository: str) -> Path | None:
    """Return the git directory of a fetched repository; None where it is not there."""
    name = repository.replace("/", "+")
    places = (folder / name / "repo", folder / name / "repo" / ".git", folder / name / ".git", folder / name)
    return next((place for place in places if (place / "HEAD").is_file()), None)


def commit_of(git: Path) -> str:
    """Return the newest commit of a repository."""
    return _git(git, "rev-parse", "HEAD").decode().strip()


def content_of(git: Path, source: Source) -> bytes:
    """Return the content of a file of the newest commit, or of the member of its archive."""
    content = _git(git, "show", f"HEAD:{source.path}")
    if not source.member:
        return content
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return next(_members(archive, source.member))


def _members(archive: tarfile.TarFile, name: str) -> Iterator[bytes]:
    for entry in archive:
        if entry.isfile() and Path(entry.name).name == name and (file := archive.extractfile(entry)) is not None:
            yield file.read()


def _git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", f"--git-dir={folder}", *arguments], check=True, capture_output=True).stdout
