"""Read a script or line with arguments of Megatron-LM: the model, and the strategy that they pin."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from lightloom.core.errors import ConfigError, about
from lightloom.machines.clusters.cluster import StageBlocks
from lightloom.models.decoder import DecoderSizes, LatentAttention
from lightloom.models.files.model_file import LINE, FileRequest, ModelReading, StatedStrategy, trace_decoder
from lightloom.models.files.shell_script import Script, read_script
from lightloom.models.files.shell_words import MARK

# Options of a Megatron-LM command, found in a script or a line, with their values.
#
# Names and defaults are those of ``megatron/training/arguments.py`` and ``TransformerConfig``, Megatron Core 0.14.

_SPACES = re.compile(r"[ \t\n]+")
"""Between words; marks of what is not known hold other spaces."""
_SIZES = ("--num-layers", "--hidden-size", "--tensor-model-parallel-size", "--encoder-num-layers")


@dataclass(slots=True)
class Options:
    """The options of one command; what is asked for counts as used."""

    path: Path
    given: Mapping[str, Sequence[str]]
    """Values by name, without dashes before it and with dashes inside."""
    program: str = ""
    """Name of the Python file that takes them; empty where no command is called."""
    notes: tuple[str, ...] = ()
    """Statements of the script that could not be followed, a sentence each."""
    undecided: Mapping[str, str] = field(default_factory=dict)
    """Variables that a condition of the script sets which is not known, and that condition."""
    used: set[str] = field(default_factory=set)

    def error(self, complaint: str) -> ConfigError:
        """Return, not raise, an error that names the file before the complaint."""
        return ConfigError(f"{self.path}: {complaint}")

    def flag(self, name: str) -> bool:
        """Return whether the option ``name`` (without dashes before it and with dashes inside: ``sequence-parallel``)
        is given, with a value or without; it counts as used."""
        self.used.add(name)
        return name in self.given

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of the option ``name`` (without dashes before it and with dashes inside:
        ``mlp-type``), ``default`` where it is not given; it counts as used.

        Raises:
            ConfigError: it is given without a value, or its value rests on a variable that the script does not set or
                that cannot be known without running it.
        """
        self.used.add(name)
        if name not in self.given:
            return default
        if not (values := self.given[name]):
            raise self.error(f"--{name} has no value")
        if mark := MARK.search(values[0]):
            variable, _, why = mark[1].replace("\u00a0", " ").partition(": ")
            raise self.error(
                f"--{name}: "
                + (f"{variable} is not known ({why})" if why else f"the file does not set {variable}")
                + f": expected its value, by --define {variable}=VALUE"
                + (f", or what decides it: {self.undecided[variable]}" if variable in self.undecided else "")
            )
        return values[0]

    def count(self, name: str) -> int | None:
        """Return the value, a whole number of at least 1, of the option ``name`` (without dashes before it and with
        dashes inside: ``num-layers``); None where it is not given. It counts as used.

        Raises:
            ConfigError: another value, none, or one that rests on a variable whose value the script does not tell.
        """
        if (text := self.text(name)) is None:
            return None
        if not re.fullmatch(r"\d[\d_]*", text) or int(text) < 1:
            raise self.error(f"--{name} {text}: expected a whole number of at least 1")
        return int(text)

    def needed(self, name: str) -> int:
        """Return the value, a whole number of at least 1, of the option ``name`` (without dashes before it and with
        dashes inside: ``hidden-size``), without which there is no model; it counts as used.

        Raises:
            ConfigError: it is missing or has another value.
        """
        if (number := self.count(name)) is None:
            raise self.error(f"--{name} is missing: expected it among the arguments of Megatron-LM")
        return number

    def unused(self) -> tuple[str, ...]:
        """Return the given options that nobody has asked for so far, with two dashes, in the order in which they are
        given."""
        return tuple(f"--{name}" for name in self.given if name not in self.used)


def read_options(path: Path, definitions: Mapping[str, str], text: str | None = None) -> Options:
    """Return the options of the last command in a script that takes sizes of Megatron-LM, else those in its arrays and
    texts.

    A command counts that states a number of layers, a hidden size or a tensor-parallel degree; one that runs only under
    an unknown condition is taken where it is the only one. The ``program`` of the options is the name of its Python
    file, "a command" without one, and empty where no command is called.

    Args:
        path: the script.
        definitions: values of variables that are set before it begins.
        text: a shell line in the place of the script; ``path`` then names it in messages.

    Raises:
        ConfigError: unreadable, a script that cannot be followed, or one without any such option.
    """
    script = read_script(path, definitions, text)
    notes = list(script.notes)
    commands = [words for words in map(_flattened, script.commands) if _has_sizes(words)]
    perhaps = [(what, _flattened(words)) for what, words in script.conditional if _has_sizes(_flattened(words))]
    if not commands and len(perhaps) == 1:
        commands = [perhaps[0][1]]
        notes.append(f"{perhaps[0][0]} is not known; the command that depends on it is taken")
    else:
        notes += [f"{what} is not known, and the command that depends on it is left out" for what, _ in perhaps]
    if len(commands) > 1:
        notes.append(f"{len(commands)} commands take arguments of Megatron-LM: the last one is taken")
    if commands:
        words = commands[-1]
        program = next((word for word in words if word.endswith(".py")), "")
        begin = words.index(program) + 1 if program in words else 0
        return Options(path, _given(words[begin:]), Path(program).name or "a command", tuple(notes), script.undecided)
    if not _has_sizes(words := _held(script)):
        ended = f" before the script ends at line {script.ended_at}" if script.ended_at else ""
        raise ConfigError(
            f"{path}: no command or array with arguments of Megatron-LM{ended}: expected {' or '.join(_SIZES[:2])} "
            "among them"
        )
    return Options(path, _given(words), "", tuple(notes), script.undecided)


def _held(script: Script) -> list[str]:
    """Return the words of all variables of a script that hold options (texts and arrays that begin with ``--``, and
    texts with ``--num-layers``), those of the variable with the most words first.

    Variables whose words are all among that one's are left out; empty where none holds options.
    """
    texts = {
        name: _flattened(held if isinstance(held, list) else _SPACES.split(held.strip()))
        for name, held in script.variables.items()
        if (held if isinstance(held, str) else " ".join(held)).strip().startswith("--")
        or (isinstance(held, str) and "--num-layers" in held)
    }
    largest = max(texts.values(), key=len, default=[])
    rest = [words for words in texts.values() if not set(words) <= set(largest)]
    return [*largest, *(word for words in rest for word in words)] if largest else []


def _flattened(words: Sequence[str]) -> list[str]:
    """Return the words in order, those that hold spaces and ``--`` (``"--fp8-format hybrid"``, commands inside of
    quotes) split at spaces."""
    parts = (_SPACES.split(word.strip()) if " " in word.strip() and "--" in word else [word] for word in words)
    return list(chain.from_iterable(parts))


def _has_sizes(words: Sequence[str]) -> bool:
    """Return whether ``--num-layers``, ``--hidden-size``, ``--tensor-model-parallel-size`` or ``--encoder-num-layers``,
    which tell Megatron-LM's commands, is among the words, also with ``=`` and a value or with underscores."""
    return any(word.partition("=")[0].replace("_", "-") in _SIZES for word in words)


def _given(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each option by its name, without dashes in front and with hyphens for underscores in it; an
    option without values has an empty list, and ``--name=value`` has one value.

    Where an option is given twice the last one counts. Redirections, pipes, ``&`` and a backslash end the values of an
    option; quotes around a value are stripped. Words before the first option are left out.
    """
    given: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, sign, value = word[2:].partition("=")
            name = name.replace("_", "-")
            given[name] = [value.strip("\"'")] if sign else []
        elif word in ("|", ">", ">>", "2>&1", "&", "\\"):
            name = ""
        elif name:
            given[name].append(word.strip("\"'"))
    return given


# Mixtures of experts among arguments of Megatron-LM, and of Megatron-DeepSpeed, whose defaults are others.
#
# Megatron Core       --num-experts 8 --moe-router-topk 2 --moe-layer-freq ([0]*1+[1]*31)
# Megatron-DeepSpeed  --num-experts 128 --topk 1 --expert-interval 2    every second layer, 1 means none

_DEEPSPEED = ("deepspeed", "deepspeed-config", "moe-expert-parallel-size", "expert-interval", "zero-stage")


def is_deepspeed(options: Options) -> bool:
    """Return whether the arguments are those of Megatron-DeepSpeed: one of its own options (``deepspeed``,
    ``deepspeed-config``, ``moe-expert-parallel-size``, ``expert-interval``, ``zero-stage``), or several values of
    ``--num-experts``. The options do not count as used by this."""
    return any(name in options.given for name in _DEEPSPEED) or len(options.given.get("num-experts", ())) > 1


def mixture(options: Options, layers: int) -> tuple[int, int, tuple[int, ...]]:
    """Return (experts of a layer, experts that a token visits, numbers from 0 of the layers without experts) by the
    options of Megatron-LM or Megatron-DeepSpeed, for a model of ``layers`` layers.

    Without a mixture there are 0 experts, no layers are listed, and the second number says nothing; it is 2 by default,
    1 for Megatron-DeepSpeed.

    Raises:
        ConfigError: layers with different numbers of experts, a residual MLP beside experts (Megatron-DeepSpeed), or an
            option that cannot be read.
    """
    if is_deepspeed(options):
        return _deepspeed(options, layers)
    experts = options.count("num-experts") or 0
    return experts, options.count("moe-router-topk") or 2, _dense_layers(options, layers) if experts else ()


def _deepspeed(options: Options, layers: int) -> tuple[int, int, tuple[int, ...]]:
    """Return (experts, experts that a token visits, numbers from 0 of the layers without experts) by the options and
    defaults of Megatron-DeepSpeed; (0, 1, ()) for a single expert.

    Experts are in each ``--expert-interval``-th of ``layers`` layers, every second by default (numbers 1, 3, 5, ...).
    ConfigError for layers with different numbers of experts, or a residual MLP beside experts.
    """
    numbers = dict.fromkeys(options.given.get("num-experts", ()))
    visited, interval = options.count("topk") or 1, options.count("expert-interval") or 2
    if len(numbers) > 1:
        raise options.error(
            f"--num-experts {' '.join(numbers)}: layers with different numbers of experts: expected as "
            "many in all of them"
        )
    if (experts := options.count("num-experts") or 1) == 1:
        return 0, 1, ()
    if (kind := options.text("mlp-type", "standard")) != "standard":
        raise options.error(f"--mlp-type {kind}: expected standard, experts without an MLP beside them")
    return experts, visited, tuple(number for number in range(layers) if (number + 1) % interval)


def _dense_layers(options: Options, layers: int) -> tuple[int, ...]:
    """Return the numbers (from 0) of layers without experts: those that are no multiple of ``--moe-layer-freq n`` (1 by
    default: none), or those with a 0 in its pattern ``([0]*3+[1]*58)``.

    ConfigError where the option cannot be read, or is of another number of layers.
    """
    text = options.text("moe-layer-freq", "1") or "1"
    if text.isdecimal() and int(text) > 0:
        return tuple(number for number in range(layers) if number % int(text))
    pattern: list[int] = []
    for part in text.replace(" ", "").strip("()").split("+"):
        if (match := re.fullmatch(r"\(?\[([01](?:,[01])*)\]\)?(?:\*(\d+))?", part)) is None:
            raise options.error(f"--moe-layer-freq {text}: expected a number, or such as ([0]*3+[1]*58)")
        pattern += [int(bit) for bit in match[1].split(",")] * int(match[2] or 1)
    if len(pattern) != layers:
        raise options.error(f"--moe-layer-freq {text}: {len(pattern)} layers, expected {layers}")
    return tuple(number for number, mixes in enumerate(pattern) if not mixes)


# Sizes of the decoder that arguments of Megatron-LM describe, with Megatron's defaults.

_TOKENIZERS = {"GPT2BPETokenizer": 50_257, "Llama2Tokenizer": 32_000}
"""Vocabularies of published tokenizers that have one size."""
_OTHER_MODELS = """
    encoder-num-layers hybrid-layer-pattern hybrid-override-pattern hybrid-attention-ratio is-hybrid-model
    mtp-num-layers vision-model-type use-checkpoint-args linear-attention-freq experimental-attention-variant
"""
_OTHER_PROGRAMS = re.compile(r"bert|t5|mamba|hybrid|vision|ict|retro|vlm|avlm|mimo|multimodal|vit", re.IGNORECASE)
_DROPOUT = 0.1
"""Dropout that ``TransformerConfig`` of Megatron-LM has by default."""


def decoder_sizes(options: Options, sequence_length: int | None) -> tuple[DecoderSizes, list[str]]:
    """Return (sizes of the decoder, sentences on what is assumed: one on the vocabulary, if it is that of a known
    tokenizer).

    ``sequence_length``, where given, overrides that of the options, which is ``--seq-length`` or else
    ``--max-position-embeddings``. Without ``--ffn-hidden-size``, the inner width is 4 hidden sizes; with ``--swiglu``
    two thirds of that, down to a multiple of 64.

    Raises:
        ConfigError: another kind of model, or an option that is missing or cannot be read.
        WorkloadError: sizes that contradict each other.
    """
    _check_kind(options)
    hidden, heads = options.needed("hidden-size"), options.needed("num-attention-heads")
    gated = any(options.flag(name) for name in ("swiglu", "quick-geglu", "geglu"))
    vocabulary, assumed = _vocabulary(options)
    length = sequence_length or options.count("seq-length") or options.needed("max-position-embeddings")
    options.used.add("seq-length")
    latent, positions = _latent(options), _positions(options)
    groups, layers = options.count("num-query-groups"), options.needed("num-layers")
    # Megatron's two thirds of four hidden sizes, down to a multiple of 64, where the gate is SwiGLU.
    width = int((4 * hidden * 2 / 3) / 64) * 64 if options.flag("swiglu") else 4 * hidden
    experts, visited, dense_layers = mixture(options, layers)
    options.count("kv-channels")
    sizes = DecoderSizes(
        layers=layers,
        hidden=hidden,
        heads=heads,
        key_heads=groups if options.flag("group-query-attention") else None,
        head_width=None if latent else options.count("kv-channels"),
        vocabulary=vocabulary,
        sequence_length=length,
        ffn=options.count("ffn-hidden-size") or width,
        norm="rms" if options.text("normalization") == "RMSNorm" else "layer",
        gated=gated,
        bias=not options.flag("disable-bias-linear"),
        query_bias=True if options.flag("add-qkv-bias") else None,
        joined_query=latent is None,
        head_norms=options.flag("qk-layernorm") and latent is None,
        tied=not options.flag("untie-embeddings-and-output-weights"),
        dropout=_dropout(options),
        experts=experts,
        visited=visited,
        expert_ffn=options.count("moe-ffn-hidden-size"),
        shared_ffn=options.count("moe-shared-expert-intermediate-size") or 0,
        shared_gate=options.flag("moe-shared-expert-gate"),
        dense_layers=dense_layers,
        latent=latent,
        table_length=options.needed("max-position-embeddings") if positions == "learned" else None,
        rotary=positions == "rotary",
    )
    return sizes, assumed


def _check_kind(options: Options) -> None:
    """Raise ConfigError if the program or an option is of another kind of model than a plain decoder, such as BERT, T5,
    Mamba, hybrids, models of images or with prediction of several tokens, or takes sizes from a checkpoint."""
    if _OTHER_PROGRAMS.search(options.program):
        raise options.error(
            f"{options.program} trains no decoder of text: expected pretrain_gpt.py, for GPT, Llama or "
            "mixtures of experts"
        )
    for name in _OTHER_MODELS.split():
        if options.flag(name):
            raise options.error(
                f"--{name}: expected a decoder whose layers are attention and feed-forward or mixture, "
                "with all its sizes among the arguments"
            )


def _vocabulary(options: Options) -> tuple[int, list[str]]:
    """Return (rows of the table of tokens, sentences): a stated or known size, padded up as Megatron pads it, and one
    sentence if it is assumed.

    Rows are padded to a multiple of ``--make-vocab-size-divisible-by`` (128) times the tensor-parallel degree. A size
    that is stated as padded is taken as it is; ``--merge-file`` without a type of tokenizer means that of GPT-2.
    ConfigError where neither a size nor a known tokenizer is stated.
    """
    multiple = (options.count("make-vocab-size-divisible-by") or 128) * (options.count(_DEGREES["tp"]) or 1)
    kind = options.text("tokenizer-type") or ("GPT2BPETokenizer" if options.flag("merge-file") else None)
    padded, stated = options.count("padded-vocab-size"), options.count("vocab-size")
    if padded is not None:
        return padded, []
    known = _TOKENIZERS.get(kind or "") if stated is None else None
    assumed = [f"vocabulary: the {known:,} of {kind}"] if known else []
    if (size := stated or known) is None:
        raise options.error(
            "--vocab-size is missing, "
            + (f"which {kind} does not tell" if kind else "and --tokenizer-type too")
            + ": expected --define vocab-size=N"
        )
    return -(-size // multiple) * multiple, assumed


def _positions(options: Options) -> str:
    """Return how positions enter by the options: ``learned`` (a table, Megatron's default), ``rotary`` or ``none``
    (with ``--no-position-embedding``, or any other ``--position-embedding-type``)."""
    kind, without = options.text("position-embedding-type", "learned_absolute"), options.flag("no-position-embedding")
    options.used.add("max-position-embeddings")
    if options.flag("use-rotary-position-embeddings") or kind in ("rope", "yarn", "mrope"):
        return "rotary"
    return "learned" if kind == "learned_absolute" and not without else "none"


def _dropout(options: Options) -> float:
    """Return the value of ``--hidden-dropout``, Megatron's default of 0.1 where none is given; ConfigError for no
    number. The dropout of attention counts as used and is left out."""
    text = options.text("hidden-dropout")
    options.text("attention-dropout")
    try:
        return _DROPOUT if text is None else float(text)
    except ValueError:
        raise options.error(f"--hidden-dropout {text}: expected a number") from None


def _latent(options: Options) -> LatentAttention | None:
    """Return the sizes of multi-head latent attention, Megatron's defaults where the options leave them out (rank of
    keys 32, widths 128, rotated 64, values 128; the rank of queries is then None); None where the options do not ask
    for it."""
    if not options.flag("multi-latent-attention"):
        return None
    return LatentAttention(
        query_rank=options.count("q-lora-rank"),
        key_rank=options.count("kv-lora-rank") or 32,
        plain_width=options.count("qk-head-dim") or 128,
        rotated_width=options.count("qk-pos-emb-head-dim") or 64,
        value_width=options.count("v-head-dim") or 128,
    )


# The strategy that arguments of Megatron-LM pin: degrees, micro-batches, sharding, recomputation.

_FSDP = ("use-megatron-fsdp", "use-custom-fsdp", "use-torch-fsdp2")
_SHARDED = {"no_shard": "none", "optim": "zero-1", "optim_grads": "zero-2", "optim_grads_params": "zero-3"}
_ZERO_STAGES: dict[str | None, str | None] = {"0": "none", "1": "zero-1", "2": "zero-2", "3": "zero-3", None: None}
_DEGREES = {
    "tp": "tensor-model-parallel-size",
    "pp": "pipeline-model-parallel-size",
    "cp": "context-parallel-size",
    "ep": "expert-model-parallel-size",
}


def strategy_pins(options: Options) -> StatedStrategy:
    """Return the choices that the arguments state, None for others; the degrees ``tp``, ``pp``, ``cp`` and ``ep`` that
    a whole command leaves out are 1, Megatron's default. ``ep`` is also read from the option of Megatron-DeepSpeed.
    ``dp`` and ``micro_batches`` are always None, ``sequence_parallel`` unless ``tp`` is above 1.

    Raises:
        ConfigError: an option that cannot be read, an unknown sharding or recomputation, or layers of a chunk that do
            not divide those of a stage.
    """
    degrees = {pin: options.count(name) for pin, name in _DEGREES.items()}
    degrees["ep"] = degrees["ep"] or options.count("moe-expert-parallel-size")
    if _is_whole(options):
        degrees = {pin: number or 1 for pin, number in degrees.items()}
    pins = StatedStrategy(
        **degrees,
        micro_batch=options.count("micro-batch-size"),
        sequence_parallel=None if degrees["tp"] in (None, 1) else options.flag("sequence-parallel"),
        sharding=_sharding(options),
        recomputation=_recomputation(options),
    )
    options.flag("sequence-parallel")
    return replace(pins, virtual_stages=_virtual_stages(options, degrees["pp"]))


def _is_whole(options: Options) -> bool:
    """Return whether options that are left out have Megatron's defaults, as in a whole command: a command is called, or
    a degree of parallelism is among the options."""
    names = (*_DEGREES.values(), "moe-expert-parallel-size")
    return bool(options.program) or any(name in options.given for name in names)


def stage_blocks(options: Options, layers: int) -> StageBlocks | None:
    """Return how Megatron cuts ``layers`` into the stages that the arguments state.

    None for a single stage, ``equal`` where nothing but their number is stated, else the number of layers of each
    chunk, the first chunks of all stages before the second ones, those of a layout in its order. A layout goes first,
    then an embedding or loss that counts as a layer of the first or last stage, then the layers that are stated for
    these stages.

    Raises:
        ConfigError: a layout that cannot be read, or that has other layers or numbers of stages; or stages between the
            first and the last, or chunks of a stage, of which not all have equally many layers.
    """
    stages, layout = options.count(_DEGREES["pp"]) or 1, options.text("pipeline-model-parallel-layout")
    first, last = (options.count(f"decoder-{end}-pipeline-num-layers") for end in ("first", "last"))
    ends = [options.flag(f"account-for-{end}-in-pipeline-split") for end in ("embedding", "loss")]
    if stages == 1:
        return None
    if layout is not None:
        return _layout(options, layout, stages, layers)
    chunks = _virtual_stages(options, stages) or 1
    if any(ends):
        share = (layers + sum(ends)) // stages
        first, last = (share - ends[0], share - ends[1])
    if first is None and last is None:
        return "equal"
    stated = [first, *[None] * (stages - 2), last]
    middle, rest = divmod(layers - (first or 0) - (last or 0), max(stated.count(None), 1))
    blocks = [middle if number is None else number for number in stated]
    if rest or sum(blocks) != layers or any(number < chunks or number % chunks for number in blocks):
        raise options.error(
            f"stages of {', '.join(map(str, blocks))} of {layers} layers, {chunks} chunks each: "
            "expected as many layers in each stage between the first and the last, and in each chunk of a stage"
        )
    return tuple(number // chunks for number in blocks) * chunks


def _layout(options: Options, layout: str, stages: int, layers: int) -> tuple[int, ...]:
    """Return the number of layers of each chunk of a layout, in its order: ``Et*3|(tt|)*2tL`` has three, two, two and
    one, as ``t`` is a layer, ``E`` the embedding and ``L`` the loss.

    Raises:
        ConfigError: another letter, a number of chunks that is no multiple of ``stages``, another number of layers than
            ``layers``, or a chunk without any.
    """
    chunks = _chunks(layout)
    plain = "|".join(chunks)
    if not re.fullmatch(r"Et+(\|t+)*L", plain) or plain.count("t") != layers or len(chunks) % stages:
        raise options.error(
            f"--pipeline-model-parallel-layout {layout}: expected a multiple of {stages} stages, "
            f"divided by |, with {layers} layers t in all and one or more in each, E before and L behind them"
        )
    return tuple(chunk.count("t") for chunk in chunks)


def _chunks(layout: str) -> list[str]:
    """Return the texts of a layout's chunks, parted at ``|``, with what is repeated in it written out: ``t*2`` and
    ``(t)*2`` are ``tt``. Blanks, commas and quotes are left out; nothing is checked."""
    plain = re.sub(r"[\s,\"']", "", layout)
    for pattern in (r"\(([^()]*)\)\*(\d{1,3})", r"([A-Za-z])\*(\d{1,3})"):
        plain = re.sub(pattern, lambda match: match[1] * int(match[2]), plain)
    return plain.split("|")


def strategy_notes(options: Options, ranks: int | None) -> list[str]:
    """Return sentences on what the arguments say of the run while the plan takes it from elsewhere or cannot follow it:
    precision, overlap of gradients (where a whole command leaves it off), tensor ranks of experts, recomputation of
    some layers, the stage of ZeRO, slices of the sequence and the number of ranks.

    ``ranks`` are those that the file starts; None where it states none.
    """
    formats = [f"--{name}" for name in ("bf16", "fp16") if options.flag(name)]
    formats += [f"--fp8-format {options.text('fp8-format')}"] if options.flag("fp8-format") else []
    notes = [f"precision: the file says {' '.join(formats)}; the plan takes training.precision"] if formats else []
    if not options.flag("overlap-grad-reduce") and options.program:
        notes.append(
            "overlap of gradients: off in the file; the plan takes training.overlap_gradients "
            "(--set training.overlap_gradients=false)"
        )
    tensor, expert = options.count(_DEGREES["tp"]) or 1, options.count("expert-tensor-parallel-size")
    if expert is not None and expert != tensor:
        notes.append(f"experts over {expert} tensor ranks: the plan splits them over {tensor}, as everything else")
    method, layers = options.text("recompute-method"), options.text("recompute-num-layers")
    if method == "block":
        notes.append(f"recomputation of {layers} layers a stage: the plan recomputes all of them")
    if is_deepspeed(options) and _zero_stage(options) is None:
        notes.append("stage of ZeRO: in the configuration of DeepSpeed, which is not read; plans choose theirs")
    if (slices := options.count("ds-sequence-parallel-size") or 1) > 1:
        notes.append(f"slices of the sequence over {slices} ranks (DeepSpeed): none here")
    if ranks is not None:
        notes.append(f"ranks: the file starts {ranks:,}; the plan takes those of the cluster")
    return notes


def _sharding(options: Options) -> str | None:
    """Return the sharding that the options ask for (``none``, ``zero-1`` to ``zero-3``, ``hybrid``); None where they
    leave it open.

    With an option of FSDP the sharding is that of ``--data-parallel-sharding-strategy``, else ``zero-3`` for PyTorch's
    FSDP2 and ``none`` for Megatron's; ``zero-3`` with several instances of the optimizer is ``hybrid``. FSDP goes
    before ZeRO of DeepSpeed, that before the distributed optimizer (``zero-1``); without any it is ``none`` in a whole
    command. ConfigError for an unknown strategy or stage.
    """
    sharded, optimizer = [name for name in _FSDP if options.flag(name)], options.flag("use-distributed-optimizer")
    strategy = options.text("data-parallel-sharding-strategy")
    instances = options.count("num-distributed-optimizer-instances") or 1
    if sharded:
        if strategy is not None and strategy not in _SHARDED:
            raise options.error(f"--data-parallel-sharding-strategy {strategy}: expected {', '.join(_SHARDED)}")
        pinned = _SHARDED[strategy] if strategy else "zero-3" if sharded[0] == "use-torch-fsdp2" else "none"
        return "hybrid" if instances > 1 and pinned == "zero-3" else pinned
    if is_deepspeed(options):
        return _ZERO_STAGES[_zero_stage(options)]
    return "zero-1" if optimizer else "none" if _is_whole(options) else None


def _zero_stage(options: Options) -> str | None:
    """Return the stage of ZeRO that arguments of DeepSpeed state, ``0`` to ``3`` as text; None where they state none.

    Raises:
        ConfigError: another word.
    """
    if (stage := options.text("zero-stage")) not in _ZERO_STAGES:
        raise options.error(f"--zero-stage {stage}: expected 0, 1, 2 or 3")
    return stage


def _recomputation(options: Options) -> str | None:
    """Return the recomputation of activations: ``full``, ``selective`` or ``none``; None where the options leave it
    open. ConfigError for another word.

    Options of older releases override ``recompute-granularity``: ``recompute-activations`` is selective,
    ``checkpoint-activations`` and ``activations-checkpoint-method`` are full and go before all others.
    """
    granularity = options.text("recompute-granularity")
    options.text("recompute-modules")
    if options.flag("recompute-activations"):
        granularity = "selective"
    if options.flag("checkpoint-activations") or options.text("activations-checkpoint-method"):
        granularity = "full"
    if granularity not in (None, "full", "selective"):
        raise options.error(f"--recompute-granularity {granularity}: expected full or selective")
    return granularity or ("none" if _is_whole(options) else None)


def _virtual_stages(options: Options, stages: int | None) -> int | None:
    """Return the chunks of layers that each stage has: those of a layout go before their stated number, that before the
    layers of a chunk; 1 in a whole command that states none.

    None where the options leave it open; ConfigError where the layers of a chunk do not divide those of a stage.
    ``stages`` is the number of pipeline stages, None for 1.
    """
    if (layout := options.text("pipeline-model-parallel-layout")) is not None:
        return max(len(_chunks(layout)) // (stages or 1), 1)
    chunks = options.count("num-virtual-stages-per-pipeline-rank")
    layers = options.count("num-layers-per-virtual-pipeline-stage")
    if chunks is not None or layers is None:
        return chunks or (1 if _is_whole(options) else None)
    if (total := options.count("num-layers")) is None:
        return None
    if total % ((stages or 1) * layers):
        raise options.error(
            f"--num-layers-per-virtual-pipeline-stage {layers}: expected a divisor of the "
            f"{total} / {stages} layers of a stage"
        )
    return total // ((stages or 1) * layers)


def read_megatron_line(line: str, request: FileRequest) -> ModelReading:
    """Return the decoder that a shell line with arguments of Megatron-LM describes, with the strategy and batches that
    it states; its graph is named ``megatron``.

    ``request`` gives the samples, the tokens of a sample in place of those that are stated, and values of variables.

    Raises:
        ConfigError: no arguments of Megatron-LM, another kind of model, or an argument that is missing or contradicts
            another.
        WorkloadError: sizes that contradict each other, or PyTorch is missing.
    """
    return read_megatron(Path(LINE), request, line)


def read_megatron(path: Path, request: FileRequest, text: str | None = None) -> ModelReading:
    """Return the decoder that the arguments of Megatron-LM in a script describe, with the strategy and batches that
    they state.

    The micro-batch counts as a replica's batch where a command is called. The graph is named after the file, without
    its ending.

    Args:
        path: the script.
        request: samples, tokens of a sample in place of those that are stated, and values by name: of variables of the
            script, and of ``vocab-size`` where the arguments do not state it.
        text: a shell line in the place of the file; ``path`` then names it in messages.

    Raises:
        ConfigError: unreadable, another kind of model, or an argument that is missing or contradicts another.
        WorkloadError: sizes that contradict each other, or PyTorch is missing.
    """
    options = read_options(path, request.definitions, text)
    if (defined := request.definitions.get("vocab-size")) is not None and "vocab-size" not in options.given:
        options.given = {**options.given, "vocab-size": [defined]}
    with about(path):
        sizes, assumed = decoder_sizes(options, request.sequence_length)
    pins, blocks = strategy_pins(options), stage_blocks(options, sizes.layers)
    ranks = options.count("world-size") if "world-size" in options.given else None
    return ModelReading(
        graph=trace_decoder(sizes, name=path.stem if text is None else "megatron", batch=request.batch),
        unrecorded=(*options.notes, *assumed, *strategy_notes(options, ranks)),
        global_batch=options.count("global-batch-size"),
        unused=options.unused(),  # of all that is read before
        pins=pins,
        replica_batch=pins.micro_batch if options.program else None,
        stage_blocks=blocks,
    )
