"""Programs of MSCCL's runtime: threadblocks of GPUs, each with at most one peer to send to and one to receive from.

    <algo name proto nchannels nchunksperloop ngpus coll inplace outofplace minBytes maxBytes>
      <gpu id i_chunks o_chunks s_chunks>
        <tb id send recv chan>
          <step s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep/>

A threadblock runs its steps in order; before a step it waits for step ``deps`` of threadblock ``depid`` of its GPU.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from lightloom.core.documents import read_bytes
from lightloom.core.errors import ConfigError

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
READS_SOURCE = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
"""Types that read ``srcbuf``; "rcs" and "rrcs" send on what they have written."""
WRITES = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
ADDS = frozenset({"rrs", "rrc", "rrcs", "re"})
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
    """True when a step of another threadblock depends on this one."""
    line: int = field(default=0, compare=False)


@dataclass(slots=True, kw_only=True)
class ThreadBlock:
    """Steps that run in order, on one channel, to at most one peer and from at most one."""

    send: int = -1
    receive: int = -1
    channel: int = 0
    steps: list[Step] = field(default_factory=list)
    line: int = field(default=0, compare=False)

    def announced_by(self, number: int) -> int | None:
        """Return the number of the step that tells waiting threadblocks that step ``number`` of this threadblock has
        ended: the first from that one on that says ``hasdep`` and is no nop; None if there is none.

        Steps are numbered from 0. When such a step ends, it announces itself and all steps before it.
        """
        steps = range(number, len(self.steps))
        return next((i for i in steps if self.steps[i].awaited and self.steps[i].type != "nop"), None)


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
    """True when the program is right where input and output share memory."""
    out_of_place: bool = False
    """True when it is right where they do not; programs that say neither are out of place."""
    min_bytes: int = 0
    """Smallest size of the collective for which a runtime chooses the program."""
    max_bytes: int = 1 << 27
    """Size from which microsoft/msccl no longer chooses it; the default is that runtime's where none is given."""
    gpus: list[Gpu] = field(default_factory=list)

    @property
    def modes(self) -> list[bool]:
        """Ways in which buffers may lie: in place (True), out of place (False), or both, True first.

        Out of place alone where the program claims neither.
        """
        ways = [way for way, claimed in ((True, self.in_place), (False, self.out_of_place)) if claimed]
        return ways or [False]


# Values of chunks: which chunk of the collective, and the GPUs whose contributions are summed in it.


class Value(NamedTuple):
    """A chunk of the collective, or a partial sum of it."""

    chunk: int
    """Number of the chunk (:mod:`lightloom.collectives.files.msccl.rules`)."""
    contributors: int
    """GPUs whose contributions are in it, as bits."""
    parts: frozenset[int]
    """Terms that were summed on this GPU: numbers of the arrivals, and -1 for the GPU's own data."""


class Fault(NamedTuple):
    """Content of a chunk after a sum that means nothing, such as that of two different chunks."""

    reason: str


Content = Value | Fault | None
"""Content of a chunk of a buffer; None where nothing has been stored."""
OWN = frozenset({-1})
"""Parts of a value that has not moved."""


def added(held: Content, more: Content, where: str) -> Content:
    """Return the sum of two contents of a place in memory: a value of the same chunk, with the contributors and the
    parts of both.

    A :class:`Fault` is returned, not raised, where one of the two is a fault (that fault; of two the first) or None
    (nothing stored), where they are of different chunks, or where a GPU's contribution is in both.

    Args:
        where: name of the step that adds, for the reason of a fault.
    """
    for content in (held, more):
        if isinstance(content, Fault):
            return content
    if not isinstance(held, Value) or not isinstance(more, Value):
        return Fault(f"{where} adds a chunk in which nothing was stored")
    if held.chunk != more.chunk:
        return Fault(f"{where} adds chunk {more.chunk} to chunk {held.chunk}")
    twice = held.contributors & more.contributors
    if twice:
        return Fault(f"{where} adds the contribution of GPU {twice.bit_length() - 1} for the second time")
    return Value(held.chunk, held.contributors | more.contributors, held.parts | more.parts)


def described(content: Content, ranks: int) -> str:
    """Return a content in words for messages: "nothing" for None, "chunk 3 of GPU 1", "chunk 3 summed over all 8 GPUs",
    "chunk 3 summed over 6 of 8 GPUs, without 1, 2" (at most six are named), or "no value of the collective (REASON)"
    for a fault.

    ``ranks`` is the number of GPUs.
    """
    if content is None:
        return "nothing"
    if isinstance(content, Fault):
        return f"no value of the collective ({content.reason})"
    members = [rank for rank in range(ranks) if content.contributors >> rank & 1]
    if len(members) == 1:
        return f"chunk {content.chunk} of GPU {members[0]}"
    if len(members) == ranks:
        return f"chunk {content.chunk} summed over all {ranks} GPUs"
    missing = [str(rank) for rank in range(ranks) if rank not in members]
    named = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
    return f"chunk {content.chunk} summed over {len(members)} of {ranks} GPUs, without {named}"


# Programs as XML.

_ALGO = {
    "name": "name",
    "proto": "protocol",
    "nchannels": "channels",
    "nchunksperloop": "chunks",
    "ngpus": "gpus",
    "coll": "collective",
    "inplace": "in_place",
    "outofplace": "out_of_place",
    "minBytes": "min_bytes",
    "maxBytes": "max_bytes",
}
"""Fields of a program by the attributes of the element ``algo``."""

_MOST = (1 << 31) - 1
LARGEST_SIZE = (1 << 63) - 1
"""Largest size in bytes that runtimes read."""


def to_xml(program: Program) -> str:
    """Return the program as XML without a declaration: one tag a line, two spaces for each level, a newline at the
    end. GPUs, threadblocks and steps are numbered from 0, and ``depid`` and ``deps`` are -1 where a step waits for
    none."""
    fields = {name: getattr(program, field) for name, field in _ALGO.items()}
    lines = [_tag("algo", 0, **fields | {"ngpus": len(program.gpus)})]
    for rank, gpu in enumerate(program.gpus):
        lines.append(_tag("gpu", 1, id=rank, **{f"{buffer}_chunks": gpu.chunks[buffer] for buffer in BUFFERS}))
        for number, block in enumerate(gpu.blocks):
            lines.append(_tag("tb", 2, id=number, send=block.send, recv=block.receive, chan=block.channel))
            for i, step in enumerate(block.steps):
                places = step.source + step.destination
                buffers = dict(zip(("srcbuf", "srcoff", "dstbuf", "dstoff"), places, strict=True))
                depid, deps = step.depends or (-1, -1)
                waits = {"depid": depid, "deps": deps, "hasdep": step.awaited}
                lines.append(_tag("step", 3, s=i, type=step.type, **buffers, cnt=step.count, **waits)[:-1] + "/>")
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def _tag(element: str, depth: int, **values: object) -> str:
    """Return the opening tag of an element, ``<element key="value" ...>``, indented by two spaces for each level of
    ``depth`` and without a newline; ``values`` are its attributes, escaped and in the given order, with truth values as
    0 and 1."""
    texts = {key: str(int(value) if isinstance(value, bool) else value) for key, value in values.items()}
    attributes = " ".join(f"{key}={quoteattr(text)}" for key, text in texts.items())
    return f"{'  ' * depth}<{element} {attributes}>"


def read_xml(path: Path) -> Program:
    """Return the program in a file; elements and attributes are checked, what the program does is not.

    Raises:
        ConfigError: unreadable, not XML, an unknown or misplaced element, a missing attribute, one that is no number
            or out of range, or GPUs, threadblocks or steps not numbered from 0 without gaps; names the line.
    """
    reader, content = _Reader(path), read_bytes(path)
    try:
        reader.parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ConfigError(f"{path}, line {error.lineno}: not XML: {expat.ErrorString(error.code)}") from error
    assert reader.program is not None
    return reader.program


class _Reader:
    """Build the program while expat reads, so that errors can name the line."""

    def __init__(self, path: Path) -> None:
        """Take the path, for messages only: the caller gives the content to ``parser``."""
        self.program: Program | None = None
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        # It could name other files.
        self.parser.StartDoctypeDeclHandler = lambda *_: self._refuse("a program has no document type declaration")
        self._path, self._open = path, list[str]()
        self._announced = 0
        self._gpus: dict[int, Gpu] = {}
        self._blocks: dict[int, ThreadBlock] = {}

    def _refuse(self, what: str) -> NoReturn:
        """Raise ConfigError that names the file and the line being read, and says ``what`` is wrong there."""
        raise ConfigError(f"{self._path}, line {self.parser.CurrentLineNumber}: {what}")

    def _start(self, name: str, values: dict[str, str]) -> None:
        """Open an element (``algo`` outermost, in it ``gpu``, in that ``tb``, in that ``step``) and read its
        attributes, texts by name; ConfigError for an unknown or misplaced element, or wrong attributes."""
        inside = {"algo": None, "gpu": "algo", "tb": "gpu", "step": "tb"}
        if name not in inside or inside[name] != (self._open[-1] if self._open else None):
            self._refuse(f"<{name}> inside {self._open[-1] if self._open else 'nothing'}: expected algo, gpu, tb, step")
        self._open.append(name)
        getattr(self, f"_{name}")(values)

    def _end(self, name: str) -> None:
        """Close an element; at the end of a GPU set its threadblocks, ordered by id, and at the end of the program its
        GPUs; nothing else happens at the end of a threadblock or a step.

        Raises:
            ConfigError: ids do not run from 0 without gaps, or GPUs are not as many as ``ngpus`` says.
        """
        self._open.pop()
        if name == "gpu":
            gpu = next(reversed(self._gpus.values()))
            gpu.blocks = [self._blocks[number] for number in self._complete(self._blocks, len(self._blocks), "tb")]
        elif name == "algo" and self.program is not None:
            if len(self._gpus) != self._announced:
                self._refuse(f"ngpus={self._announced}, but there are {len(self._gpus)} GPUs")
            self.program.gpus = [self._gpus[rank] for rank in self._complete(self._gpus, self._announced, "gpu")]

    def _complete(self, known: Container[int], count: int, element: str) -> range:
        """Return the ids 0 to ``count`` - 1; ConfigError where one of them is not among ``known``, the ids read.

        ``element`` is the name of the elements that have the ids, for the message.
        """
        for number in range(count):
            if number not in known:
                self._refuse(f"no <{element}> has id={number}: expected ids 0 to {count - 1}, each once")
        return range(count)

    def _algo(self, values: dict[str, str]) -> None:
        """Begin the program with the attributes of its element ``algo``; ConfigError where one is missing or wrong.

        Needed are ``name``, ``coll`` and ``proto``, any texts, and the whole numbers ``ngpus``, ``nchannels``,
        ``nchunksperloop`` and ``inplace`` (0 or 1). ``outofplace``, ``minBytes`` and ``maxBytes`` may be missing: the
        first is then the opposite of ``inplace``, the others 0 and 2^27.
        """
        self._announced = self._whole(values, "ngpus", least=1)
        in_place = self._whole(values, "inplace", least=0, most=1)
        # Older files lack these attributes; the defaults are those of microsoft/msccl.
        values = {"outofplace": str(1 - in_place), "minBytes": "0", "maxBytes": str(1 << 27)} | values
        texts = {_ALGO[name]: self._text(values, name) for name in ("name", "coll", "proto")}
        limits = {"nchannels": (0, _MOST), "nchunksperloop": (1, _MOST), "outofplace": (0, 1)}
        limits |= dict.fromkeys(("minBytes", "maxBytes"), (0, LARGEST_SIZE))
        numbers = {_ALGO[name]: self._whole(values, name, *limit) for name, limit in limits.items()}
        ways = {"in_place": bool(in_place), "out_of_place": bool(numbers.pop("out_of_place"))}
        self.program = Program(**texts, **numbers, **ways)  # type: ignore[arg-type]

    def _gpu(self, values: dict[str, str]) -> None:
        """Begin a GPU with the attributes of its element ``gpu``, its id and the numbers of chunks of its buffers
        (``i_chunks``, ``o_chunks``, ``s_chunks``); ConfigError where one is missing or wrong, or the id was there."""
        rank = self._new(values, self._gpus)
        chunks = {name: self._whole(values, f"{name}_chunks", least=0) for name in BUFFERS}
        self._gpus[rank] = Gpu(chunks=chunks, line=self.parser.CurrentLineNumber)
        self._blocks = {}

    def _tb(self, values: dict[str, str]) -> None:
        """Begin a threadblock of the current GPU with the attributes of its element ``tb``: ``id``, the peers ``send``
        and ``recv`` (-1 for none), and the channel ``chan``; ConfigError where one is missing or no whole number from
        -1 on, or the id was there."""
        number = self._new(values, self._blocks)
        send, receive, channel = (self._whole(values, name) for name in ("send", "recv", "chan"))
        line = self.parser.CurrentLineNumber
        self._blocks[number] = ThreadBlock(send=send, receive=receive, channel=channel, line=line)

    def _step(self, values: dict[str, str]) -> None:
        """Append a step with the attributes of its element ``step`` to the current threadblock; ConfigError where ``s``
        is not the next number from 0, or an attribute is missing or no number. A negative ``depid`` means no
        dependency; type and buffers are taken as any text."""
        block = next(reversed(self._blocks.values()))
        number = self._whole(values, "s")
        if number != len(block.steps):
            self._refuse(f"<step>: s={number}: expected {len(block.steps)}, as steps are numbered in order")
        depends = (self._whole(values, "depid"), self._whole(values, "deps"))
        block.steps.append(
            Step(
                type=self._text(values, "type"),
                source=(self._text(values, "srcbuf"), self._whole(values, "srcoff")),
                destination=(self._text(values, "dstbuf"), self._whole(values, "dstoff")),
                count=self._whole(values, "cnt"),
                depends=None if depends[0] < 0 else depends,
                awaited=bool(self._whole(values, "hasdep", least=0, most=1)),
                line=self.parser.CurrentLineNumber,
            )
        )

    def _text(self, values: dict[str, str], name: str) -> str:
        """Return the attribute ``name`` of an element; ConfigError where it is missing."""
        if name not in values:
            self._refuse(f"<{self._open[-1]}>: attribute {name!r} is missing: expected one, as msccl-tools writes it")
        return values[name]

    def _whole(self, values: dict[str, str], name: str, least: int = -1, most: int = _MOST) -> int:
        """Return the attribute ``name`` of an element as a whole number from ``least`` to ``most``, both included, by
        default 2^31 - 1; ConfigError where it is missing or anything else."""
        text = self._text(values, name)
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            self._refuse(f"<{self._open[-1]}>: {name}={text!r}: expected a whole number from {least} to {most}")
        return value

    def _new(self, values: dict[str, str], known: Container[int]) -> int:
        """Return the id of an element, from 0 on; ConfigError where it is missing, no such number, or ``known``
        already."""
        number = self._whole(values, "id", least=0)
        if number in known:
            self._refuse(f"<{self._open[-1]}>: id={number} occurs twice: expected each id once")
        return number
