"""Programs of MSCCL's runtime: threadblocks of GPUs, each with at most one peer to send to and one to receive from.

    <algo name proto nchannels nchunksperloop ngpus coll inplace outofplace minBytes maxBytes>
      <gpu id i_chunks o_chunks s_chunks>
        <tb id send recv chan>
          <step s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep/>

A threadblock runs its steps in order; before a step it waits for step ``deps`` of threadblock ``depid`` of its GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from lightloom.core.errors import ConfigError
from lightloom.core.files import cannot_read

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
READS_SOURCE = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
"""Types that read ``srcbuf``; "rcs" and "rrcs" send on what they have written."""
WRITES = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
TYPES = SENDS | RECEIVES | READS_SOURCE | {"nop"}
"""Types of steps: s sends, r receives, c copies to the buffer, rr reduces; "re" and "cpy" are local."""
BUFFERS = ("i", "o", "s")


@dataclass(slots=True, kw_only=True)
class Step:
    """One step of a threadblock."""

    type: str
    source: tuple[str, int] = ("i", -1)
    """Buffer and first chunk that it reads."""
    destination: tuple[str, int] = ("o", -1)
    """Buffer and first chunk that it writes."""
    count: int = 1
    depends: tuple[int, int] | None = None
    """Threadblock of the same GPU, and its step that must have ended."""
    awaited: bool = False
    """Whether a step of another threadblock depends on this one."""
    line: int = field(default=0, compare=False)


@dataclass(slots=True, kw_only=True)
class ThreadBlock:
    """Steps that run in order, on one channel, to at most one peer and from at most one."""

    send: int = -1
    receive: int = -1
    channel: int = 0
    steps: list[Step] = field(default_factory=list)
    line: int = field(default=0, compare=False)


@dataclass(slots=True, kw_only=True)
class Gpu:
    """One GPU: the number of chunks in each buffer, and its threadblocks by id."""

    chunks: dict[str, int]
    blocks: list[ThreadBlock] = field(default_factory=list)
    line: int = field(default=0, compare=False)


@dataclass(slots=True, kw_only=True)
class Program:
    """A program, with its GPUs by id."""

    name: str
    collective: str
    """MSCCL's name of the collective: allgather, allreduce, reduce_scatter, ..."""
    protocol: str = "Simple"
    channels: int = 1
    chunks: int = 1
    """Chunks that a loop of the runtime handles."""
    in_place: bool = True
    gpus: list[Gpu] = field(default_factory=list)


def to_xml(program: Program) -> str:
    """Return the program as XML, one element per line."""
    lines = [
        _tag(
            "algo",
            0,
            name=program.name,
            proto=program.protocol,
            nchannels=program.channels,
            nchunksperloop=program.chunks,
            ngpus=len(program.gpus),
            coll=program.collective,
            inplace=int(program.in_place),
            outofplace=int(not program.in_place),
            minBytes=0,
            maxBytes=0,
        )
    ]
    for rank, gpu in enumerate(program.gpus):
        lines.append(_tag("gpu", 1, id=rank, **{f"{buffer}_chunks": gpu.chunks[buffer] for buffer in BUFFERS}))
        for number, block in enumerate(gpu.blocks):
            lines.append(_tag("tb", 2, id=number, send=block.send, recv=block.receive, chan=block.channel))
            lines.extend(_step(i, step) for i, step in enumerate(block.steps))
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def _step(number: int, step: Step) -> str:
    depid, deps = step.depends or (-1, -1)
    return (
        _tag(
            "step",
            3,
            s=number,
            type=step.type,
            srcbuf=step.source[0],
            srcoff=step.source[1],
            dstbuf=step.destination[0],
            dstoff=step.destination[1],
            cnt=step.count,
            depid=depid,
            deps=deps,
            hasdep=int(step.awaited),
        )[:-1]
        + "/>"
    )


def _tag(element: str, depth: int, **values: object) -> str:
    attributes = " ".join(f"{key}={quoteattr(str(value))}" for key, value in values.items())
    return f"{'  ' * depth}<{element} {attributes}>"


def read_xml(path: Path) -> Program:
    """Return the program in a file; elements and attributes are checked, what the program does is not.

    Raises:
        ConfigError: unreadable, not XML, an unknown or misplaced element, a missing attribute, or one that is no
            number; names the line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    reader = _Reader(path)
    try:
        reader.parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ConfigError(f"{path}, line {error.lineno}: not XML: {expat.ErrorString(error.code)}") from error
    assert reader.program is not None
    return reader.program


class _Reader:
    """Build the program while expat reads, so that errors can name the line."""

    def __init__(self, path: Path) -> None:
        self.program: Program | None = None
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._no_doctype
        self._path, self._open = path, list[str]()
        self._announced = 0

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigError(f"{self._path}, line {self.parser.CurrentLineNumber}: {what}")

    def _no_doctype(self, *_: object) -> None:
        self._refuse("a program has no document type declaration")

    def _start(self, name: str, values: dict[str, str]) -> None:
        inside = {"algo": None, "gpu": "algo", "tb": "gpu", "step": "tb"}
        if name not in inside or inside[name] != (self._open[-1] if self._open else None):
            self._refuse(f"<{name}> inside {self._open[-1] if self._open else 'nothing'}: expected algo, gpu, tb, step")
        self._open.append(name)
        getattr(self, f"_{name}")(values)

    def _end(self, name: str) -> None:
        self._open.pop()
        if name == "algo" and self.program is not None and len(self.program.gpus) != self._announced:
            self._refuse(f"ngpus={self._announced}, but there are {len(self.program.gpus)} GPUs")

    def _algo(self, values: dict[str, str]) -> None:
        self._announced = self._whole(values, "ngpus", least=1)
        self.program = Program(
            name=self._text(values, "name"),
            collective=self._text(values, "coll"),
            protocol=self._text(values, "proto"),
            channels=self._whole(values, "nchannels", least=0),
            chunks=self._whole(values, "nchunksperloop", least=1),
            in_place=bool(self._whole(values, "inplace", most=1)),
        )

    def _gpu(self, values: dict[str, str]) -> None:
        assert self.program is not None
        self._in_order(values, "id", len(self.program.gpus))
        chunks = {name: self._whole(values, f"{name}_chunks", least=0) for name in BUFFERS}
        self.program.gpus.append(Gpu(chunks=chunks, line=self.parser.CurrentLineNumber))

    def _tb(self, values: dict[str, str]) -> None:
        assert self.program is not None
        gpu = self.program.gpus[-1]
        self._in_order(values, "id", len(gpu.blocks))
        send, receive, channel = (self._whole(values, name) for name in ("send", "recv", "chan"))
        gpu.blocks.append(ThreadBlock(send=send, receive=receive, channel=channel, line=self.parser.CurrentLineNumber))

    def _step(self, values: dict[str, str]) -> None:
        assert self.program is not None
        block = self.program.gpus[-1].blocks[-1]
        self._in_order(values, "s", len(block.steps))
        depends = (self._whole(values, "depid"), self._whole(values, "deps"))
        block.steps.append(
            Step(
                type=self._text(values, "type"),
                source=(self._text(values, "srcbuf"), self._whole(values, "srcoff")),
                destination=(self._text(values, "dstbuf"), self._whole(values, "dstoff")),
                count=self._whole(values, "cnt"),
                depends=None if depends == (-1, -1) else depends,
                awaited=bool(self._whole(values, "hasdep", least=0, most=1)),
                line=self.parser.CurrentLineNumber,
            )
        )

    def _text(self, values: dict[str, str], name: str) -> str:
        if name not in values:
            self._refuse(f"<{self._open[-1]}>: attribute {name!r} is missing")
        return values[name]

    def _whole(self, values: dict[str, str], name: str, least: int = -1, most: int = (1 << 31) - 1) -> int:
        text = self._text(values, name)
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            self._refuse(f"<{self._open[-1]}>: {name}={text!r}: expected a whole number from {least} to {most}")
        return value

    def _in_order(self, values: dict[str, str], name: str, expected: int) -> None:
        number = self._whole(values, name)
        if number != expected:
            self._refuse(f"<{self._open[-1]}>: {name}={number}: expected {expected}, as they are numbered in order")
