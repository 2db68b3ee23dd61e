"""Programs of MSCCL: they keep the rules, do their work at any speed, come back; what breaks a rule is refused."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective
from lightloom.collectives.files.msccl.check import Run, _chosen_sizes, sentence
from lightloom.collectives.files.msccl.check import document as check_document
from lightloom.collectives.files.msccl.program import (
    Content,
    Fault,
    Gpu,
    Program,
    Step,
    ThreadBlock,
    Value,
    added,
    described,
    read_xml,
    to_xml,
)
from lightloom.collectives.files.msccl.read import (
    Movement,
    Row,
    _Levels,
    _logical_steps,
    _order,
    _Version,
    _versions,
    check_program,
    read_program,
)
from lightloom.collectives.files.msccl.rules import Condition, check_rules, condition_of
from lightloom.collectives.files.msccl.write import NAMES, ProgramWriter, _channels_of_rows, program_of
from lightloom.collectives.files.row_order import row_order
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import ConfigError, InputError, UnsupportedError
from lightloom.machines.fabrics.switches import PacketSwitch
from tests.interchange.schedules import Data, Made, deliveries, made, ring


def program(name: str = "recursive-doubling", kind: Any = "all-reduce", ranks: int = 4) -> Program:
    fabric = PacketSwitch(ranks=ranks)
    return program_of(build(find(name), Collective(kind, ranks, 1e6), fabric), fabric)


def written(folder: Path, made: Program) -> Path:
    path = folder / "program.xml"
    path.write_text(to_xml(made))
    return path


MOST_CHUNKS = 4096
"""Chunks of a schedule whose program is written and run step by step."""


def served(drawn: Made, shared: bool) -> Program:
    """The program of a schedule, whose threadblocks are ``shared`` as where a GPU would need too many."""
    schedule, fabric = drawn
    assume(not fabric.in_network_reduction and schedule.collective.kind in NAMES)
    assume(schedule.chunks <= MOST_CHUNKS)
    with patch.object(ProgramWriter, "too_many_blocks", return_value=shared):
        return program_of(schedule, fabric)


@settings(deadline=None, max_examples=60)
@given(drawn=made(), shared=st.booleans())
def test_a_program_comes_back_and_makes_the_same_deliveries(
    tmp_path_factory: pytest.TempPathFactory, drawn: Made, shared: bool
) -> None:
    schedule, fabric = drawn
    path = written(tmp_path_factory.mktemp("out"), made := served(drawn, shared))
    assert read_xml(path) == made
    switch = PacketSwitch(ranks=fabric.ranks)
    read = read_program(path, switch, schedule.collective.nbytes)
    assert deliveries(read) == deliveries(schedule.unfolded(fabric.fibre_channels))
    assert read.collective == schedule.collective
    assert read.chunks == schedule.chunks
    try:
        on_its_own = read_program(path, fabric, schedule.collective.nbytes)
    except UnsupportedError as refused:
        assert "too many for one step" in str(refused)
    else:
        assert deliveries(on_its_own) == deliveries(read)


def chunks_of_places(schedule: Schedule) -> dict[tuple[int, tuple[str, int]], int]:
    """The chunk at each rank's place in input and output."""
    writer, ranks = ProgramWriter(schedule, row_order(schedule), [], 1), range(schedule.collective.ranks)
    places = {(rank, writer.place(rank, chunk)): chunk for rank in ranks for chunk in range(schedule.chunks)}
    return {place: chunk for place, chunk in places.items() if place[1][0] != "s"}


@settings(deadline=None, max_examples=80)
@given(drawn=made(), shared=st.booleans(), seed=st.integers(0, 2**32), room=st.integers(1, 3))
def test_threadblocks_at_any_speed_do_the_work(drawn: Made, shared: bool, seed: int, room: int) -> None:
    """A runtime of a few lines: any threadblock may step next, connections hold few messages."""
    made, chance = served(drawn, shared), random.Random(seed)
    blocks = [(rank, number) for rank, gpu in enumerate(made.gpus) for number in range(len(gpu.blocks))]
    at = dict.fromkeys(blocks, 0)
    wires: dict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
    data, chunk_at = Data(drawn[0]), chunks_of_places(drawn[0])

    def stepped(rank: int, number: int) -> bool:
        block = made.gpus[rank].blocks[number]
        if at[rank, number] == len(block.steps):
            return False
        step = block.steps[at[rank, number]]
        if step.depends is not None and at[rank, step.depends[0]] <= step.depends[1]:
            return False
        if step.type == "s":
            wire = wires[rank, block.send, block.channel]
            if len(wire) == room:
                return False
            chunk = chunk_at[rank, step.source]
            wire.append((chunk, data.sent(rank, chunk)))
        elif step.type == "cpy":
            assert (step.source, step.destination) == (("i", step.source[1]), ("o", step.source[1]))
        elif step.type != "nop":
            wire = wires[block.receive, rank, block.channel]
            if not wire:
                return False
            chunk, value = wire.popleft()
            assert chunk_at.setdefault((rank, step.destination), chunk) == chunk
            data.arrives(rank, chunk, value, step.type == "rrc")
        at[rank, number] += 1
        return True

    while any(at[name] < len(made.gpus[name[0]].blocks[name[1]].steps) for name in blocks):
        chance.shuffle(blocks)
        assert sum(stepped(*name) for name in blocks), "every threadblock waits"
    assert not any(wires.values())
    data.check()


@pytest.mark.long
def test_many_chunks_and_many_peers_spread_over_channels() -> None:
    assert program("one-stage", "all-gather", 40).channels == 2
    fabric = ring(40)
    many = build(find("ring-two-way"), Collective("all-reduce", 40, 1e6), fabric).unfolded(1)
    assert program_of(many, fabric).channels == 1
    # A threadblock for each end of a connection would be 218 of the 216.
    shared = program("one-stage", "all-gather", 110)
    assert {len(gpu.blocks) for gpu in shared.gpus} == {109}
    with pytest.raises(UnsupportedError, match="219 threadblocks on a GPU: MSCCL's runtime has 216"):
        program("one-stage", "all-gather", 220)
    with pytest.raises(UnsupportedError, match="broadcast has no MSCCL program, for a runtime chooses a program"):
        program("binomial-tree", "broadcast")


@given(nbytes=st.floats(0, 1e12, allow_subnormal=False), ranks=st.integers(2, 9))
@settings(deadline=None, max_examples=30)
def test_a_runtime_chooses_a_program_for_the_size_it_was_made_for(nbytes: float, ranks: int) -> None:
    """microsoft/msccl asks minBytes <= size < maxBytes and that nchunksperloop divides the number of elements."""
    fabric = PacketSwitch(ranks=ranks)
    made = program_of(build(find("ring"), Collective("all-reduce", ranks, nbytes), fabric), fabric)
    unit = 8 * made.chunks
    chosen = range(made.min_bytes, made.max_bytes)
    assert min(chosen) <= nbytes <= max(chosen)
    assert max(chosen) - min(chosen) <= unit
    assert any(size % unit == 0 for size in (min(chosen), max(chosen)))
    assert len(chosen) == 1 or nbytes % unit


def block(made: Program, gpu: int = 0, number: int = 0) -> ThreadBlock:
    return made.gpus[gpu].blocks[number]


def dependent(made: Program) -> Step:
    """The first step that waits for another."""
    return next(step for gpu in made.gpus for each in gpu.blocks for step in each.steps if step.depends is not None)


def _hurry(made: Program) -> None:
    dependent(made).depends = None


def _set(thing: Callable[[Program], Any], **fields: Any) -> Callable[[Program], None]:
    def change(made: Program) -> None:
        for name, value in fields.items():
            setattr(thing(made), name, value)

    return change


def _step(made: Program) -> Step:
    return block(made).steps[0]


def _same_ends(made: Program) -> None:
    blocks = made.gpus[0].blocks
    blocks[1].send, blocks[1].receive, blocks[1].channel = blocks[0].send, blocks[0].receive, blocks[0].channel


def _unawaited(made: Program) -> None:
    for each in made.gpus[0].blocks:
        for step in each.steps:
            step.awaited = False


def _crossed(made: Program) -> None:
    """Each of two threadblocks waits for the other's first step before its own."""
    for one, other in ((0, 1), (1, 0)):
        step = block(made, 0, one).steps[0]
        step.depends, step.awaited = (other, 0), True


BAD: list[tuple[Callable[[Program], None], str]] = [
    (_set(lambda made: made, protocol="Fast"), "protocol 'Fast'"),
    (_set(lambda made: made, channels=0), "0 channels: expected 1 to 32"),
    (_set(lambda made: made, channels=33), "33 channels"),
    (_set(block, channel=1), "line 3: GPU 0, threadblock 0: channel 1: expected 0 to 0"),
    (_set(block, receive=0), "peer 0: expected another of the 4 GPUs"),
    (_set(block, receive=4), "peer 4"),
    (_set(block, receive=-1), "type 'rrc' in a threadblock that has no peer to receive"),
    (_same_ends, "as another threadblock does"),
    (_set(_step, type="rx"), "line 4: GPU 0, threadblock 0, step 0: type 'rx'"),
    (_set(_step, type="s"), "no peer to send"),
    (_set(_step, count=0), "0 chunks: expected 1 to 71"),
    (_set(_step, count=72), "72 chunks"),
    (_set(_step, count=2), "chunks 0 and 1 more of buffer 'i': there are 1"),
    (_set(_step, source=("i", 1)), "chunks 1 and 0 more of buffer 'i'"),
    (_set(_step, source=("x", 0)), "buffer 'x': there are 0"),
    (_set(_step, depends=(0, 0)), "step 0: waits forever"),
    (_set(_step, depends=(9, 0)), "waits for threadblock 9"),
    (_set(_step, depends=(1, 99)), "waits for step 99 of threadblock 1, which does not exist"),
    (_unawaited, "no step from that one on says hasdep=1"),
    (lambda made: block(made).steps.insert(0, Step(type="nop")), "a nop, and what follows one, must wait"),
    (lambda made: block(made).steps.append(Step(type="nop")), "ends with a nop"),
    (lambda made: block(made).steps.extend([Step(type="nop", depends=(1, 0))] * 256), "steps: at most 256"),
    (lambda made: block(made).steps.clear(), "leaves a message|waits forever|waits for step 0"),
    (_crossed, "no step from that one on says hasdep=1"),
    (_hurry, "nothing orders it after GPU"),
]


@pytest.mark.parametrize(("change", "complaint"), BAD)
def test_a_broken_rule_is_refused(tmp_path: Path, change: Callable[[Program], None], complaint: str) -> None:
    made = program()
    change(made)
    with pytest.raises(ConfigError) as refused:
        check_program(written(tmp_path, made))
    assert any(part in str(refused.value) for part in complaint.split("|")), str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["r", "nop", "cpy"])
def test_a_sum_that_is_missing_is_refused_without_a_fabric(tmp_path: Path, kind: str) -> None:
    """A reduction that becomes a plain receive leaves a program that runs, and computes something else."""
    made = program("ring", "all-reduce", 4)
    step = next(step for gpu in made.gpus for each in gpu.blocks for step in each.steps if step.type == "rrc")
    step.type = kind
    with pytest.raises(ConfigError, match=r"needs chunk \d summed over all 4 GPUs|leaves a message|waits forever|nop"):
        check_program(written(tmp_path, made))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("</algo>", "", "not XML: no element found"),
        ("<gpu ", "<cpu ", "line 2: <cpu> inside algo"),
        ("<tb ", "<step ", "line 3: <step> inside gpu"),
        ('chan="0"', "", "line 3: <tb>: attribute 'chan' is missing"),
        ('cnt="1"', 'cnt="one"', "line 4: <step>: cnt='one': expected a whole number"),
        ('id="0"', 'id="1"', "<gpu>: id=1 occurs twice"),
        ('id="0"', 'id="4"', "no <gpu> has id=0: expected ids 0 to 3, each once"),
        (' s="0"', ' s="3"', "line 4: <step>: s=3: expected 0"),
        ('ngpus="4"', 'ngpus="5"', "ngpus=5, but there are 4 GPUs"),
        ('hasdep="0"', 'hasdep="2"', "hasdep='2'"),
        ("<algo", '<!DOCTYPE x [<!ENTITY y "z">]><algo', "line 1: a program has no document type declaration"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = written(tmp_path, program())
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError) as refused:
        read_xml(path)
    assert complaint in str(refused.value)


def custom(*blocks: ThreadBlock, held: int = 1, ranks: int = 2, **fields: Any) -> Program:
    """Blocks of GPU 0 beside GPUs without any, of a collective that only its author knows."""
    gpus = [
        Gpu(chunks={"i": held, "o": held, "s": held}, blocks=list(blocks if rank == 0 else ())) for rank in range(ranks)
    ]
    return Program(**{"name": "x", "collective": "custom", "channels": 32, "gpus": gpus, **fields})


def broken(made: Program) -> str:
    """What is wrong with the rules of a program; empty where nothing is."""
    try:
        check_rules(made, condition_of(made, True, "x"), "x")
    except ConfigError as refused:
        return str(refused)
    return ""


def copies(steps: int, **fields: Any) -> list[Step]:
    return [Step(type="cpy", source=("i", 0), destination=("o", 0), **fields) for _ in range(steps)]


def waiting(number: int, awaited: int) -> ThreadBlock:
    return ThreadBlock(steps=copies(1, depends=(number, awaited)))


def announcing(steps: int = 1) -> ThreadBlock:
    return ThreadBlock(steps=copies(steps, awaited=True))


@pytest.mark.parametrize(
    ("allowed", "refused", "complaint"),
    [
        (custom(channels=1), custom(channels=0), "0 channels: expected 1 to 32"),
        (custom(channels=32), custom(channels=33), "33 channels: expected 1 to 32"),
        (custom(*[ThreadBlock()] * 216), custom(*[ThreadBlock()] * 217), "GPU 0: 217 threadblocks: at most 216"),
        (
            custom(ThreadBlock(steps=copies(256))),
            custom(ThreadBlock(steps=copies(257))),
            "GPU 0, threadblock 0: 257 steps: at most 256",
        ),
        (
            custom(ThreadBlock(steps=copies(1, count=71)), held=71),
            custom(ThreadBlock(steps=copies(1, count=72)), held=99),
            "step 0: 72 chunks: expected 1 to 71",
        ),
        (
            custom(ThreadBlock(steps=copies(1, count=71)), held=71),
            custom(ThreadBlock(steps=copies(1, count=71)), held=70),
            "chunks 0 and 70 more of buffer 'i': there are 70",
        ),
        (
            custom(ThreadBlock(steps=[Step(type="cpy", source=("i", 32767), destination=("o", 0))]), held=40_000),
            custom(ThreadBlock(steps=[Step(type="cpy", source=("i", 32768), destination=("o", 0))]), held=40_000),
            "offset 32768: runtimes keep offsets up to 32767",
        ),
        (
            custom(*[announcing()] * 128, waiting(127, 0)),
            custom(*[announcing()] * 129, waiting(128, 0)),
            "waits for threadblock 128: runtimes keep numbers up to 127",
        ),
        (
            custom(announcing(), waiting(0, 0)),
            custom(announcing(), waiting(2, 0)),
            "waits for threadblock 2: the GPU has 2",
        ),
        (
            custom(announcing(2), waiting(0, 1)),
            custom(announcing(2), waiting(0, 2)),
            "waits for step 2 of threadblock 0",
        ),
        (
            custom(announcing(), waiting(0, 0)),
            custom(announcing(), waiting(0, -1)),
            "waits for step -1 of threadblock 0",
        ),
        (
            custom(*(ThreadBlock(send=peer) for peer in range(1, 33)), ranks=40),
            custom(*(ThreadBlock(send=peer) for peer in range(1, 34)), ranks=40),
            "GPU 0: 33 threadblocks send on channel 0: at most 32",
        ),
        (
            custom(*(ThreadBlock(receive=peer, channel=peer // 30) for peer in range(1, 40)), ranks=40),
            custom(*(ThreadBlock(receive=peer) for peer in range(1, 40)), ranks=40),
            "GPU 0: 39 threadblocks receive on channel 0: at most 32",
        ),
        (
            custom(ThreadBlock(send=1, receive=1), ThreadBlock(send=1, channel=1)),
            custom(ThreadBlock(send=1, receive=1), ThreadBlock(send=1)),
            "threadblock 1: sends to GPU 1 on channel 0, as another threadblock does",
        ),
        (custom(ThreadBlock(send=1)), custom(ThreadBlock(send=2)), "peer 2: expected another of the 2 GPUs, or -1"),
        (custom(ThreadBlock(receive=-1)), custom(ThreadBlock(receive=-2)), "peer -2: expected another of the 2 GPUs"),
        (
            custom(ThreadBlock(channel=31)),
            custom(ThreadBlock(channel=31), channels=31),
            "channel 31: expected 0 to 30",
        ),
    ],
)  # fmt: skip
def test_programs_at_the_limits_of_a_runtime_are_taken_and_those_beyond_are_not(
    allowed: Program, refused: Program, complaint: str
) -> None:
    assert broken(allowed) == "" and complaint in broken(refused)


def test_chunks_that_a_step_reads_and_writes_overlap_not_at_all_or_wholly() -> None:
    for first, overlapping in ((0, False), (1, True), (2, True), (3, False), (4, False)):
        for kind in ("cpy", "re"):
            step = Step(type=kind, source=("i", 0), destination=("i", first), count=3)
            back = Step(type=kind, source=("i", first), destination=("i", 0), count=3)
            for each in (step, back):
                found = broken(custom(ThreadBlock(steps=[each]), held=7))
                assert ("reads and writes overlapping chunks of buffer 'i'" in found) == overlapping
    apart = Step(type="cpy", source=("i", 0), destination=("o", 1), count=3)
    assert broken(custom(ThreadBlock(steps=[apart]), held=7)) == ""


def test_reductions_that_runtimes_merge_have_one_count() -> None:
    """Of neighbouring steps into one place, from one buffer, without a wait between them."""
    one = {"type": "re", "source": ("i", 0), "destination": ("o", 0), "count": 1}
    two = {**one, "count": 2}

    def of(before: dict[str, Any], after: dict[str, Any]) -> str:
        return broken(custom(announcing(), ThreadBlock(steps=[Step(**before), Step(**after)]), held=4))

    assert "step 1: adds 2 chunks to those to which step 0 adds 1: runtimes merge such steps" in of(one, two)
    assert of(one, one) == of(one | {"awaited": True}, two) == of(one, two | {"depends": (0, 0)}) == ""
    assert of(one, two | {"destination": ("o", 1)}) == of(one, two | {"source": ("s", 0)}) == ""
    assert of(one | {"type": "cpy"}, two) == of(one, two | {"type": "cpy"}) == ""


def test_a_nop_waits_and_so_does_what_follows_it() -> None:
    nop, end = Step(type="nop", depends=(0, 0)), copies(1, depends=(0, 0))
    assert broken(custom(announcing(), ThreadBlock(steps=[nop, *end]))) == ""
    for steps in ([Step(type="nop"), *end], [nop, *copies(1)]):
        found = broken(custom(announcing(), ThreadBlock(steps=steps)))
        assert "a nop, and what follows one, must wait for a step" in found
    assert "ends with a nop" in broken(custom(announcing(), ThreadBlock(steps=[*end, nop])))
    assert broken(custom(announcing(), ThreadBlock(steps=[*copies(1), nop, *end, *copies(1)]))) == ""


def test_buffers_hold_as_many_chunks_as_the_collective_has_or_none() -> None:
    for buffer, size in (("i", 2), ("o", 6)):
        for held in (0, size, size + 1, size - 1, 1):
            made = Program(name="x", collective="allgather", chunks=6)
            made.gpus = [Gpu(chunks={"i": 2, "o": 6, "s": 9}) for _ in range(3)]
            made.gpus[2].chunks[buffer] = held
            found = broken(made)
            wrong = f"GPU 2: {buffer}_chunks={held}: expected {size}, for nchunksperloop=6 over 3 GPUs in an allgather"
            assert found == ("" if held in (0, size) else f"x: {wrong}")


def writer(ranks: int = 2) -> ProgramWriter:
    schedule = build(find("ring"), Collective("all-gather", ranks, 1e6), PacketSwitch(ranks=ranks)).unfolded(1)
    return ProgramWriter(schedule, row_order(schedule), [0] * len(schedule), 1)


def test_a_writer_that_errs_writes_nothing() -> None:
    """Programs are run before they are handed out: here all chunks lie in one place."""
    with (
        patch.object(ProgramWriter, "place", lambda self, rank, chunk: ("i", 0)),
        pytest.raises(ConfigError, match=r"ring: GPU .*: nothing orders it after GPU"),
    ):
        program("ring", "all-reduce", 4)


@pytest.mark.parametrize(("count", "first"), [(128, 1), (129, 129)])
def test_threadblocks_for_which_others_wait_come_first_where_numbers_run_out(count: int, first: int) -> None:
    made = writer()
    for peer in range(1, count + 1):
        made.steps[0, "send", peer, 0].append(Step(type="s", awaited=peer == count))
    blocks = made.program().gpus[0].blocks
    assert [each.send for each in blocks] == [first, *(peer for peer in range(1, count + 1) if peer != first)]


def test_too_many_threadblocks_are_those_of_one_gpu() -> None:
    for count, too_many in ((216, False), (217, True)):
        made = writer()
        for peer in range(count):
            made.steps[0, "send", peer, 0].append(Step(type="s"))
            made.steps[1, "send", peer, 0].append(Step(type="s"))
        assert made.too_many_blocks() == too_many
    for count, too_many in ((128, False), (129, True)):
        made = writer()
        for number in range(count):
            made.waits[(0, "receive", 0, 0), number] = (0, "send", number, 0), 0
            made.waits[(0, "receive", 0, 0), number + count] = (0, "send", number, 0), 1
        assert made.too_many_blocks() == too_many
    assert not writer().too_many_blocks()


@pytest.mark.parametrize("peers", [32, 33, 70])
def test_lightpaths_of_a_pair_have_channels_of_their_own_also_where_peers_are_many(peers: int) -> None:
    """Rank 0 sends to all; rank 1 is sent three lightpaths, of which it answers one."""
    ends = [(0, peer) for peer in range(1, peers + 1)] + [(0, 1), (0, 1), (1, 0), (0, 1)]
    paths = [*range(10, peers + 10), 3, 4, 5, 3]
    columns = {"source": [end[0] for end in ends], "destination": [end[1] for end in ends], "lightpath": paths}
    schedule: Any = SimpleNamespace(
        queued=True,
        collective=SimpleNamespace(ranks=peers + 1),
        **{name: np.array(column) for name, column in columns.items()},
    )
    channels = _channels_of_rows(schedule)
    found = set(zip(ends, paths, channels, strict=True))
    assert len({(end, channel) for end, _, channel in found}) == len(found) == len({each[:2] for each in found})
    crowds = Counter(channel for end, channel in {(end, channel) for end, _, channel in found} if end[0] == 0)
    assert max(crowds.values()) <= 32 and (max(channels) >= 3) == (peers > 32)
    schedule.queued = False
    alone = _channels_of_rows(schedule)
    assert len({(end, channel) for end, channel in zip(ends, alone, strict=True)}) == len(set(ends))


LIMITS = {
    "nchannels": (0, 2**31 - 1),
    "nchunksperloop": (1, 2**31 - 1),
    "inplace": (0, 1),
    "outofplace": (0, 1),
    "minBytes": (0, 2**63 - 1),
    "maxBytes": (0, 2**63 - 1),
    "i_chunks": (0, 2**31 - 1),
    "send": (-1, 2**31 - 1),
    "recv": (-1, 2**31 - 1),
    "chan": (-1, 2**31 - 1),
    "srcoff": (-1, 2**31 - 1),
    "dstoff": (-1, 2**31 - 1),
    "cnt": (-1, 2**31 - 1),
    "depid": (-1, 2**31 - 1),
    "deps": (-1, 2**31 - 1),
    "hasdep": (0, 1),
}
"""Least and largest value of attributes that are whole numbers."""


@pytest.mark.parametrize("name", LIMITS)
def test_attributes_are_read_up_to_their_limits_and_not_beyond(tmp_path: Path, name: str) -> None:
    path, (least, most) = written(tmp_path, program()), LIMITS[name]
    text = path.read_text()
    for value in (least, most):
        path.write_text(re.sub(rf' {name}="[^"]*"', f' {name}="{value}"', text, count=1))
        assert f'{name}="{value}"' in to_xml(read_xml(path)) or name in ("depid", "deps")
    for wrong in (least - 1, most + 1, "1.0", ""):
        path.write_text(re.sub(rf' {name}="[^"]*"', f' {name}="{wrong}"', text, count=1))
        with pytest.raises(ConfigError, match=rf"{name}='{wrong}': expected a whole number from {least} to {most}"):
            read_xml(path)


def test_older_files_have_the_defaults_of_the_runtime(tmp_path: Path) -> None:
    path = written(tmp_path, program())
    text = re.sub(r' (outofplace|minBytes|maxBytes)="\d+"', "", path.read_text())
    for in_place in (False, True):
        path.write_text(re.sub(r' inplace="\d"', f' inplace="{in_place:d}"', text))
        made = read_xml(path)
        assert (made.in_place, made.out_of_place, made.min_bytes, made.max_bytes) == (
            in_place,
            not in_place,
            0,
            1 << 27,
        )


def test_programs_in_place_out_of_place_both_or_neither() -> None:
    for in_place, out_of_place, modes in (
        (True, False, [True]),
        (False, True, [False]),
        (True, True, [True, False]),
        (False, False, [False]),
    ):
        made = Program(name="x", collective="allreduce", in_place=in_place, out_of_place=out_of_place)
        assert made.modes == modes


def test_a_step_is_announced_by_the_next_that_says_so_and_is_no_nop() -> None:
    steps = [
        Step(type=kind, awaited=awaited) for kind, awaited in (("s", False), ("nop", True), ("r", True), ("s", False))
    ]
    found = [ThreadBlock(steps=steps).announced_by(number) for number in range(4)]
    assert found == [2, 2, 2, None]


def test_sums_of_contents_are_those_of_one_chunk_and_count_everybody_once() -> None:
    one, other = Value(3, 0b0011, frozenset({-1})), Value(3, 0b1100, frozenset({5}))
    assert added(one, other, "s") == added(other, one, "s") == Value(3, 0b1111, frozenset({-1, 5}))
    broken = Fault("broken")
    assert added(broken, one, "s") is added(one, broken, "s") is added(None, broken, "s") is broken
    for held, more, why in (
        (None, one, "s adds a chunk in which nothing was stored"),
        (one, None, "s adds a chunk in which nothing was stored"),
        (one, Value(4, 0b1100, frozenset()), "s adds chunk 4 to chunk 3"),
        (one, Value(3, 0b0110, frozenset()), "s adds the contribution of GPU 1 for the second time"),
    ):
        assert added(held, more, "s") == Fault(why)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "nothing"),
        (Fault("why"), "no value of the collective (why)"),
        (Value(2, 1 << 7, frozenset()), "chunk 2 of GPU 7"),
        (Value(2, (1 << 9) - 1, frozenset()), "chunk 2 summed over all 9 GPUs"),
        (Value(2, (1 << 8) - 1, frozenset()), "chunk 2 summed over 8 of 9 GPUs, without 8"),
        (Value(2, 0b111, frozenset()), "chunk 2 summed over 3 of 9 GPUs, without 3, 4, 5, 6, 7, 8"),
        (Value(2, 0b11, frozenset()), "chunk 2 summed over 2 of 9 GPUs, without 2, 3, 4, 5, 6, 7 and 1 more"),
    ],
)
def test_contents_are_described_by_who_is_in_them(content: Content, words: str) -> None:
    assert described(content, 9) == words


def condition(kind: str, in_place: bool = True, ranks: int = 3, chunks: int = 6) -> Condition:
    made = Program(name="x", collective=kind, chunks=chunks, in_place=in_place)
    made.gpus = [Gpu(chunks={"i": 4, "o": 5, "s": 0}) for _ in range(ranks)]
    return condition_of(made, in_place, "x")


def test_roots_are_read_from_the_values_that_programs_leave() -> None:
    """Of a reduction the rank that holds the whole sum; of a broadcast the one whose chunks most have."""
    sums, copies = condition("reduce"), condition("broadcast")
    whole, part = Value(0, 0b111, frozenset()), Value(0, 0b101, frozenset())
    for root in range(3):
        assert sums.root({sums.place(rank, "o", 0): whole if rank == root else part for rank in range(3)}) == root
        held: list[Content] = [Value(6 * root, 1 << root, frozenset())] * 3
        held[(root + 1) % 3] = Value(0, 1, frozenset())
        assert copies.root({copies.place(rank, "o", 0): value for rank, value in enumerate(held)}) == root
    assert sums.root({}) == copies.root({}) == 0 and sums.root({sums.place(1, "o", 0): part}) == 0
    everywhere = condition("allreduce")
    assert everywhere.root({everywhere.place(1, "o", 0): whole}) == 0


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs"),
    [
        ("allgather", 2, 6),
        ("reduce_scatter", 6, 2),
        ("reducescatter", 6, 2),
        ("allreduce", 6, 6),
        ("alltoall", 6, 6),
        ("broadcast", 6, 6),
        ("reduce", 6, 6),
        ("custom", 4, 5),
    ],
)
def test_buffers_have_the_chunks_of_the_collective_and_lie_in_the_larger_in_place(
    kind: str, inputs: int, outputs: int
) -> None:
    for in_place in (True, False):
        made = condition(kind, in_place)
        assert made.inputs == (inputs,) * 3 and made.outputs == (outputs,) * 3
        assert (made.size(1, "i"), made.size(1, "o"), made.size(1, "s")) == (inputs, outputs, None)
        places = {
            (rank, buffer, k): made.place(rank, buffer, k)
            for rank in range(3)
            for buffer, size in (("i", inputs), ("o", outputs), ("s", 2))
            for k in range(size)
        }
        larger = "i" if inputs >= outputs else "o"
        for (rank, buffer, k), place in places.items():
            moved = rank * min(inputs, outputs) if buffer != larger and inputs != outputs else 0
            assert place == ((rank, larger, k + moved) if in_place and buffer != "s" else (rank, buffer, k))
    first = [value for _, value in condition(kind).initial()]
    assert [value.contributors for value in first] == [1 << rank for rank in range(3) for _ in range(inputs)]
    summed = kind in ("allreduce", "reduce", "reduce_scatter", "reducescatter")
    assert [value.chunk for value in first] == (list(range(inputs)) * 3 if summed else list(range(3 * inputs)))


def test_chunks_that_do_not_divide_are_refused_where_each_gpu_has_its_own() -> None:
    for kind in ("allreduce", "broadcast", "reduce", "custom"):
        assert condition(kind, chunks=7).chunks == 7
    for kind in ("allgather", "alltoall", "reduce_scatter"):
        with pytest.raises(UnsupportedError, match="nchunksperloop=7 with 3 GPUs: expected a multiple of 3 chunks"):
            condition(kind, chunks=7)


def test_what_must_be_there_in_the_end_is_who_contributes_to_each_chunk() -> None:
    found = {kind: list(condition(kind).expected(1)) for kind in ("alltoall", "reduce_scatter", "reduce", "custom")}
    assert found["alltoall"][6:9] == [(1, 0, 2, 1), (1, 1, 3, 1), (1, 2, 8, 2)]
    assert found["reduce_scatter"] == [(rank, k, 2 * rank + k, 7) for rank in range(3) for k in range(2)]
    assert found["reduce"] == [(1, k, k, 7) for k in range(6)] and found["custom"] == []
    assert list(condition("allgather").expected(0))[:6] == [(0, k, k, 1 << k // 2) for k in range(6)]
    assert list(condition("broadcast").expected(2))[-6:] == [(2, k, 12 + k, 4) for k in range(6)]


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_changed_step_is_refused_or_does_the_same_work(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """What the checker lets through is a schedule that the verifier lets through."""
    made = program("ring", "all-reduce", 4)
    steps = block(made, data.draw(st.integers(0, 3)), data.draw(st.integers(0, 1))).steps
    step = steps[data.draw(st.integers(0, len(steps) - 1))]
    name = data.draw(st.sampled_from(["type", "source", "destination", "depends"]))
    value = {
        "type": st.sampled_from(["s", "r", "rrc", "rcs", "rrs", "rrcs", "cpy", "re", "nop"]),
        "source": st.tuples(st.sampled_from("ios"), st.integers(0, 3)),
        "destination": st.tuples(st.sampled_from("ios"), st.integers(0, 3)),
        "depends": st.none() | st.tuples(st.integers(0, 1), st.integers(0, 5)),
    }[name]
    setattr(step, name, data.draw(value))
    path = written(tmp_path_factory.mktemp("out"), made)
    try:
        read = read_program(path, PacketSwitch(ranks=4), 1e6)
    except InputError as refused:
        assert str(path) in str(refused)
    else:
        assert deliveries(read) == deliveries(
            build(find("ring"), Collective("all-reduce", 4, 1e6), PacketSwitch(ranks=4)).unfolded(1)
        )


def fused_ring(ranks: int) -> Program:
    """A ring all-reduce as msccl-tools fuses it: one threadblock a GPU receives, adds and sends on in one step."""
    made = program("ring", "all-reduce", ranks)
    for rank, gpu in enumerate(made.gpus):
        offsets = [("i", (rank - turn) % ranks) for turn in range(2 * ranks - 1)]
        types = ["s", *["rrs"] * (ranks - 2), "rrcs", *["rcs"] * (ranks - 2), "r"]
        steps = [Step(type=kind, source=at, destination=at) for kind, at in zip(types, offsets, strict=True)]
        gpu.blocks = [ThreadBlock(send=(rank + 1) % ranks, receive=(rank - 1) % ranks, steps=steps)]
    return made


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_fused_steps_are_understood(tmp_path: Path, ranks: int) -> None:
    path = written(tmp_path, fused_ring(ranks))
    read = read_program(path, ring(ranks), 1e6)
    plain = build(find("ring"), Collective("all-reduce", ranks, 1e6), ring(ranks)).unfolded(1)
    assert read.steps == plain.steps == 2 * ranks - 2
    # Which rank begins with which chunk is the writer's choice.
    assert Counter(row[:2] + row[3:] for row in deliveries(read)) == Counter(
        row[:2] + row[3:] for row in deliveries(plain)
    )


def test_what_a_schedule_cannot_say_is_refused(tmp_path: Path) -> None:
    switch = PacketSwitch(ranks=4)
    made = program()
    made.collective = "gather"
    with pytest.raises(UnsupportedError, match="collective 'gather': expected one of allgather"):
        read_program(written(tmp_path, made), switch, 1e6)
    made.collective = "custom"
    with pytest.raises(UnsupportedError, match="collective 'custom'"):
        read_program(written(tmp_path, made), switch, 1e6)
    with pytest.raises(ConfigError, match="4 GPUs: the fabric has 5 ranks"):
        read_program(written(tmp_path, program()), PacketSwitch(ranks=5), 1e6)
    made = program("ring", "all-gather")
    made.gpus[2].blocks = []
    with pytest.raises(ConfigError, match="waits forever"):
        read_program(written(tmp_path, made), switch, 1e6)
    made = program("ring", "all-gather")
    for gpu in made.gpus:
        gpu.blocks = []
    with pytest.raises(
        ConfigError,
        match="chunk 1 of the output is nothing: allgather in place needs chunk 1 of GPU 1; 11 more chunks are",
    ):
        read_program(written(tmp_path, made), switch, 1e6)


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [
        (1 << 20, 1 << 21, "from 1 MiB to less than 2 MiB"),
        (0, 1 << 27, "from 0 B to less than 128 MiB"),
        (5, 5, "never: minBytes=5, maxBytes=5, and it asks minBytes <= size < maxBytes"),
        (6, 5, "never: minBytes=6, maxBytes=5, and it asks minBytes <= size < maxBytes"),
        (1 << 20, (1 << 20) + 1, "for 1 MiB (1,048,576 bytes)"),
        (1 << 20, (1 << 20) + 2, "for 1 MiB (1,048,576 to 1,048,577 bytes)"),
    ],
)
def test_the_sizes_that_a_program_is_chosen_for_are_told(least: int, most: int, words: str) -> None:
    made = Program(name="x", collective="allreduce", min_bytes=least, max_bytes=most, chunks=16)
    told = _chosen_sizes(made)
    assert told == (words if words.startswith("never") else f"{words}, where 16 divides the number of elements")


def _run(collective: str = "allreduce", in_place: bool = True, **facts: Any) -> Any:
    condition = SimpleNamespace(collective=collective, in_place=in_place)
    return Run(condition=condition, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runs", "first"),
    [
        ([_run(messages=3)], "in place: every GPU ends with all chunks summed over all; 3 messages, no"),
        ([_run(in_place=False, messages=3, copies=2, sums=1)],
         "out of place: every GPU ends with all chunks summed over all; 3 messages, 2 local copies, 1 local sums, no"),
        ([_run(messages=1), _run(in_place=False, messages=2, sums=5)],
         "in place and out of place: every GPU ends with all chunks summed over all; 1 messages, no"),
        ([_run("reduce", root=2)], "in place: GPU 2 ends with all chunks summed over all; 0 messages, no"),
        ([_run("broadcast", root=1)], "in place: every GPU ends with the chunks of GPU 1; 0 messages, no"),
        ([_run("custom")], "in place: what a custom collective computes is not in the file, so that values are not "
         "checked; 0 messages, no"),
    ],
)  # fmt: skip
def test_what_a_program_does_is_told_with_the_counts_of_its_first_run(runs: list[Any], first: str) -> None:
    made = Program(name="p", collective=runs[0].condition.collective, gpus=[Gpu(chunks={}), Gpu(chunks={})])
    lines = sentence(made, runs).splitlines()
    assert lines[0] == f"p: {made.collective} over 2 GPUs, {first} step waits forever, none races"
    assert lines[-1] == f"chosen by microsoft/msccl {_chosen_sizes(made)}" and len(lines) == 2
    waiting = sentence(made, [*runs, _run(in_parts=False)]).splitlines()
    assert len(waiting) == 3 and waiting[1].endswith("at such sizes this program waits forever")
    told = check_document(made, runs)
    assert (told["in_place"], told["out_of_place"]) == tuple(
        any(run.condition.in_place is place for run in runs) for place in (True, False)
    )
    assert (told["messages"], told["local_copies"], told["local_sums"], told["root"]) == (
        runs[0].messages, runs[0].copies, runs[0].sums, runs[0].root
    )  # fmt: skip
    assert told["values_checked"] is (made.collective != "custom") and told["gpus"] == 2
    assert told["waits_at_large_sizes"] is False and told["chunks_sent"] == 0
    assert check_document(made, [*runs, _run(in_parts=False)])["waits_at_large_sizes"] is True


def test_sums_of_a_step_come_before_its_copies_and_each_in_the_order_of_their_parts() -> None:
    fabric = PacketSwitch(ranks=4)
    rows = [Row(0, 1, n, n % 2 == 1) for n in range(6)]
    columns = np.array([1, 1, 1, 1, 0, 0]), np.arange(6), np.array([1, 2, 3, 0, 4, 5])
    levels = _Levels(*columns, frozenset())
    steps = _logical_steps(rows, levels, Collective("all-reduce", 4, 4e6), fabric, 8, "file")
    assert [step.reduces for step in steps] == [True, False, True, False]
    assert [np.asarray(step.chunk).ravel().tolist() for step in steps] == [[5], [4], [3, 1], [0, 2]]


def test_versions_of_a_chunk_follow_each_other_however_they_are_listed() -> None:
    """Its own data, what arrival 3 adds, and then what arrival 5 adds; or arrival 3 in its place."""
    own, one, two = frozenset({-1}), frozenset({-1, 3}), frozenset({-1, 3, 5})
    uses = {own: (1, [0]), one: (3, [1]), two: (7, [2])}
    alone, more = frozenset({3}), frozenset({3, 5})
    replaced = {own: (1, [0]), alone: (2, [1]), more: (6, [2])}
    for order in permutations(range(3)):
        found = _versions(SimpleNamespace(), (0, 0), _listed(uses, order), 7, "file")  # type: ignore[arg-type]
        assert found == [(1, frozenset(), -1, [0]), (3, {3}, -1, [1]), (7, {5}, -1, [2])]
        found = _versions(SimpleNamespace(), (0, 0), _listed(replaced, order), 6, "file")  # type: ignore[arg-type]
        assert found == [(1, frozenset(), -1, [0]), (2, {3}, 3, [1]), (6, {5}, -1, [2])]


def test_what_a_gpu_keeps_and_never_sends_arrives_before_what_replaces_it() -> None:
    """The whole sum by arrival 0, and in its place one rank's data by arrival 1, a step later at least."""
    movement = Movement([Row(1, 0, 0, False), Row(2, 0, 0, False)], [], 2)
    _order([_Version(7, frozenset({0}), 0, []), _Version(2, frozenset({1}), 1, [])], movement)
    assert (movement.edges, movement.nodes) == ([(0, 1, 1)], 2)


def _listed(uses: dict[Any, Any], order: tuple[int, ...]) -> dict[Any, Any]:
    items = list(uses.items())
    return dict(items[place] for place in order)
