"""Schedules out and in, checked; refused in one line with exit 2, and nothing left behind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import lightloom as ll
from lightloom.collectives.files import formats
from lightloom.collectives.files.msccl import write
from tests.cli.commands import run

_RING = ["--fabric", "wdm-ring", "--ranks", "6"]
_BY_RING = ["--algorithm", "ring"]
_OUT = ["collective", "all-gather", *_RING, "--out"]


@pytest.fixture(autouse=True)
def _no_designs_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path / "cache"))


def export(kind: str, output: Path) -> list[str]:
    return ["collective", kind, "--algorithm", "synthesized", "--out", str(output), *_RING, "--nbytes", "1MB"]


def _stated(line: str) -> str:
    """The file whose rows and bytes a line states."""
    found = re.fullmatch(r"\S*?([^/\s]+): [\d,]+ rows, about [\d.]+ (B|[KMGT]iB)\n", line)
    assert found is not None, line
    return found[1]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce", "all-to-all"])
def test_a_schedule_goes_round_by_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    made = run(monkeypatch, capsys, *export(kind, tmp_path / "a.json"))
    assert (made.code, _stated(made.err)) == (0, "a.json")
    assert "synthesized" in made.out and "verified" in made.out
    steps = [
        [str(tmp_path / "a.json"), "--out", str(tmp_path / "b.et")],
        [str(tmp_path / "b.et"), "--out", str(tmp_path / "c.xml")],
        [str(tmp_path / "c.xml"), "--out", str(tmp_path / "d.json"), *_RING, "--nbytes", "1MB"],
        [str(tmp_path / "d.json"), "--json"],
    ]
    for arguments in steps:
        done = run(monkeypatch, capsys, "schedule", *arguments)
        assert done.code == 0 and (arguments[1] == "--json" or arguments[2].endswith(_stated(done.err))), arguments
    assert done.err == ""
    report = json.loads(done.out)
    assert (report["kind"], report["ranks"], report["nbytes"], report["verified"]) == (kind, 6, 1e6, True)
    assert report["time_s"] >= report["lower_bound_s"] > 0
    assert sorted(path.name for path in tmp_path.glob("b.*")) == [f"b.{rank}.et" for rank in range(6)]


def test_a_program_is_checked_without_a_fabric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.xml"
    run(monkeypatch, capsys, "collective", "all-reduce", "--out", str(path), *_RING, "--nbytes", "1MB", *_BY_RING)
    done = run(monkeypatch, capsys, "schedule", str(path))
    assert done.code == 0
    assert "allreduce over 6 GPUs, in place: every GPU ends with all chunks summed over all; 60 messages" in done.out
    document = json.loads(run(monkeypatch, capsys, "schedule", str(path), "--json").out)
    assert document["messages"] == 60
    run(monkeypatch, capsys, "collective", "all-gather", "--out", str(path), *_RING, "--nbytes", "960kB")
    done = run(monkeypatch, capsys, "schedule", str(path))
    assert "chosen by microsoft/msccl for 937.5 KiB (960,000 bytes), where 12 divides" in done.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([*_OUT, "a.csv", "--nbytes", "1MB"], "unknown suffix '.csv'"),
        ([*_OUT, "/proc/a.json", "--nbytes", "1MB"], "cannot write '/proc/a.json'"),
        (["collective", "shuffle", *_RING, "--nbytes", "1MB"], "unknown collective 'shuffle'"),
        ([*_OUT, "a.json", "--nbytes", "1MB", "--algorithm", "rnig"], "did you mean 'ring'"),
        (["collective", "broadcast", "--out", "a.xml", *_RING, "--nbytes", "1MB"], "broadcast has no MSCCL program"),
        (
            [
                "schedule",
                "export",
                "all-reduce",
                "a.json",
                "--fabric",
                "optical-averager",
                *_RING[2:],
                "--nbytes",
                "1MB",
            ],
            "synthesized sends from rank to rank",
        ),
        (["schedule", "none.json", "--out", "b.json"], "cannot read 'none.json': No such file"),
        (["schedule", "none.et", "--out", "b.json"], "cannot read 'none.0.et'"),
        (["schedule", "none.xml", "--out", "b.json"], "give --fabric, --ranks and --nbytes"),
        (["schedule", "none.json", "--nbytes", "1MB"], "states its size"),
        (["schedule", "none.json", "--ranks", "6"], "--fabric and --ranks go together"),
        (["schedule", "none.xml"], "cannot read 'none.xml'"),
        (["schedule", "cut.json"], "cut.json, line 2, column 1: not JSON"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cut.json").write_text("{\n")
    before = sorted(path for path in tmp_path.iterdir() if path.name != "cache")
    done = run(monkeypatch, capsys, *arguments)
    assert (done.code, done.out) == (2, "")
    assert complaint in done.err
    assert done.err.count("\n") == 1 + ("rows, about" in done.err) + ("warning: " in done.err)
    assert sorted(path for path in tmp_path.iterdir() if path.name != "cache") == before


@pytest.mark.long
def test_the_fastest_that_fits_a_program_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others wait for the threadblocks of each of a rank's 15 peers, and ten can be numbered."""
    monkeypatch.setattr(write, "MOST_AWAITED", 9)
    asked = ["collective", "all-reduce", "--fabric", "switch", "--ranks", "16", "--nbytes", "10kB"]
    done = run(monkeypatch, capsys, *asked, "--out", str(tmp_path / "a.xml"))
    assert done.code == 0 and "threadblocks for which others wait: MSCCL's runtime has 10; the next" in done.err
    names = [row["algorithm"] for row in json.loads(run(monkeypatch, capsys, *asked, "--json").out)["rows"]]
    refused = [line.split(":")[1].strip() for line in done.err.splitlines() if line.startswith("warning: ")]
    written = re.search(r"(\S+) written", done.out)
    assert written is not None and names[: len(refused) + 1] == [*refused, written[1]]


def test_what_cannot_be_said_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The averager's switch has no trace: found out after the schedule was built, before anything is written."""
    arguments = ["--fabric", "optical-averager", "--ranks", "4", "--nbytes", "1MB", "--algorithm", "in-network"]
    for name in ("a.et", "a.xml"):
        done = run(monkeypatch, capsys, "collective", "all-reduce", "--out", str(tmp_path / name), *arguments)
        assert done.code == 2
        assert "a switch that reduces" in done.err
    assert not list(tmp_path.glob("a*"))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("x.et", r"rows, about \d+\.\d+ GiB: expected at most 953.7 MiB, or a --largest \(largest=\) that allows more"),
        ("x.xml", r"rows, about \d+\.\d+ GiB: expected at most 953.7 MiB"),
    ],
)
def test_what_would_fill_the_disk_is_refused_before_it_is_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, complaint: str
) -> None:
    """A pipeline on a torus of 8x4x4 has few rows, and tens of millions for all ranks and pieces."""
    fabric = tmp_path / "torus.yaml"
    fabric.write_text("kind: torus\ndims: [8, 4, 4]\nhop_latency: 0.5us\nbandwidth: 50GB/s\n", encoding="utf-8")
    arguments = ["collective", "all-reduce", "--out", str(tmp_path / name), "--algorithm", "hierarchical"]
    arguments += ["--fabric", str(fabric), "--ranks", "128", "--nbytes", "1TB"]
    for writes in ("write_traces", "program_of"):
        monkeypatch.setattr(formats, writes, lambda *_: pytest.fail("rows are written out"))
    done = run(monkeypatch, capsys, *arguments)
    stated, refused = done.err.splitlines()
    assert done.code == 2 and _stated(stated + "\n") == name and re.search(complaint, refused)
    assert not (tmp_path / name).exists()


def test_more_is_written_where_it_is_asked_for_and_less_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = run(monkeypatch, capsys, *export("all-gather", tmp_path / "a.json"), "--largest", "10B")
    assert refused.code == 2 and "expected at most 10 B" in refused.err and not (tmp_path / "a.json").exists()
    monkeypatch.setattr(formats, "LARGEST", 10.0)
    assert run(monkeypatch, capsys, *export("all-gather", tmp_path / "a.json"), "--largest", "1MB").code == 0


@pytest.mark.parametrize("suffix", list(formats.FORMATS))
@pytest.mark.parametrize(
    ("name", "algorithm"), [("ring", "ring-two-way"), ("wdm-ring", "optree"), ("switch", "one-stage")]
)
def test_as_much_is_written_as_was_stated(tmp_path: Path, suffix: str, name: str, algorithm: str) -> None:
    """No more bytes than stated beside the header, and no less than a tenth where rows are many."""
    if suffix == ".xml" and name == "switch":
        pytest.skip("one threadblock a peer is more than a GPU has")
    made = ll.synthesize("all-gather", name, 24 if suffix == ".xml" else 60, "1MB", algorithm=algorithm)
    stated = formats.export_size(tmp_path / f"a{suffix}", made.schedule)
    written = sum(path.stat().st_size for path in made.save(tmp_path / f"a{suffix}"))
    header = 60_000 if suffix in (".et", ".parquet", ".arrow") else 8_000
    assert written <= stated.nbytes + header and (stated.rows < 2000 or written >= stated.nbytes / 10)


def test_the_trace_of_one_rank_stands_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, capsys, *export("all-gather", tmp_path / "a.et"))
    outputs = [run(monkeypatch, capsys, "schedule", str(tmp_path / name)) for name in ("a.et", "a.0.et", "a.3.et")]
    assert [done.code for done in outputs] == [0, 0, 0] and len({done.out for done in outputs}) == 1


def test_the_former_commands_write_and_read_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, capsys, *export("all-gather", tmp_path / "a.json"))
    run(monkeypatch, capsys, "schedule", str(tmp_path / "a.json"), "--out", str(tmp_path / "a.xml"))
    former = [
        ["export", "all-gather", str(tmp_path / "b.json"), *_RING, "--nbytes", "1MB"],
        ["import", str(tmp_path / "b.json"), str(tmp_path / "b.xml")],
        ["check", str(tmp_path / "b.xml")],
    ]
    for arguments in former:
        done = run(monkeypatch, capsys, "schedule", *arguments)
        assert done.code == 0 and done.err.startswith(f"warning: `schedule {arguments[0]}` is spelt ")
    for form in ("json", "xml"):
        assert (tmp_path / f"a.{form}").read_bytes() == (tmp_path / f"b.{form}").read_bytes()
