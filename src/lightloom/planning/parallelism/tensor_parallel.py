"""Tensor parallelism: who holds a slice of which operator, and what the slices exchange. Of transformers as Megatron
does it, of convolutional networks as DaDianNao does it.

    whole ─► [column-parallel linear] ─ slices ─► ... ─ slices ─► [row-parallel linear] ─► all-reduce ─► whole

A linear layer that reads a whole tensor is split by its outputs; one that reads slices, by its inputs. The gradient of
a whole tensor that column-parallel layers read is all-reduced on its way back, once. Embedding tables are split by rows
(the vocabulary), their outputs all-reduced; the loss works on slices of the logits. A normalisation of each head works
on the heads of a slice; one of all channels needs them whole, so that the layers before it (compressed queries and keys
of multi-head latent attention) are computed by every rank. Source: Shoeybi et al., "Megatron-LM", 2019, section 3;
Megatron-LM's ``multi_latent_attention.py`` for the latter.

    tokens' slices ─► all-gather ─► [column-parallel] ─ slices ─► [row-parallel] ─► reduce-scatter ─► tokens' slices

With sequence parallelism whole tensors lie in slices of the sequence instead, each rank computing what acts on single
tokens (norms, dropout, sums) for its own. Source: Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", MLSys 2023, section 4.2.2.

    slices of channels ─► all-gather ─► [convolution or linear layer, split by its outputs] ─► slices of channels

A convolutional network is split neuron by neuron, as DaDianNao's chips split it ("model parallelism"): every rank
computes its share of every layer's outputs and has the weights for them, and what reads across channels needs its
input whole. Batch normalisation, pooling and the like work on slices. Neurons are shared out evenly (an assumption:
the last rank of few channels has fewer). Source: Ro, Lee and Ahn, Electronics 2018, 7, 130, section 2.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.models.graph import ComputeGraph, Operator

SCOREWISE = frozenset({"activation", "add", "copy", "dropout", "elementwise", "softmax"})
"""Kinds between the two products of attention that is written out."""
_SLICEWISE = SCOREWISE | {"attention", "concat", "loss", "matmul", "norm"}
"""Kinds that take slices and give slices; a norm those of whole heads."""
TOKENWISE = SCOREWISE | {"embedding", "experts", "linear", "norm", "reduce", "topk"}
"""Kinds that do to each token the same, whatever the others are; a softmax or sum of whole tensors goes along channels,
unless the sequence is gone after it."""
_MULTIPLIES = frozenset({"linear", "experts"})
"""Kinds whose weights are split by columns or rows."""
_CHANNELWISE = frozenset(
    {"activation", "add", "batch_norm", "concat", "copy", "dropout", "elementwise", "input", "loss", "pool", "reduce"}
)
"""Kinds of convolutional networks that take slices of channels and give slices."""
_ACROSS = frozenset({"conv", "linear", "lrn", "norm", "softmax"})
"""Kinds of convolutional networks that read across channels."""
_SCORES = frozenset({"activation", "add", "elementwise", "softmax"})
"""Kinds between a router's layer and its choice of experts."""


@dataclass(frozen=True, slots=True)
class TensorSplit:
    """How a graph's operators fall to the ranks of a tensor group; each array has shape [operators]."""

    divided: Mask
    """Every rank does its share of the arithmetic and holds its share of the parameters."""
    sliced: Mask
    """The output stays in slices."""
    forward: Mask
    """The output is all-reduced in the forward pass."""
    backward: Mask
    """The gradient of the first input is all-reduced in the backward pass."""
    degree: int
    """Number that the tensor degree must divide: heads, and inputs of row-parallel layers; 0 where neurons are split,
    which any degree does; 1 where the model has no attention, or slices would reach an operator that needs them
    whole."""
    sequenced: Mask
    """With sequence parallelism the output lies in slices of the sequence; of neurons, which are split, always."""
    sequence_degree: int
    """Number that the tensor degree must divide with sequence parallelism, the sequence's length; 1 where an operator
    between the split layers mixes tokens."""
    gathered: Mask
    """The first input, in slices of channels, is all-gathered before the forward and again before the backward pass,
    and its gradient reduce-scattered."""

    @property
    def of_neurons(self) -> bool:
        """True where every layer is split by its outputs."""
        return self.degree == 0


def tensor_split(graph: ComputeGraph) -> TensorSplit:
    """Return how the operators of a graph are divided among the ranks of a tensor group (masks [operators]: ``divided``
    arithmetic and parameters, ``sliced`` outputs, with sequence parallelism ``sequenced`` ones, ``forward`` for an
    all-reduce of the output, ``backward`` for one of the gradient of the first input, ``gathered`` for an all-gather of
    the first input; and the numbers that the tensor degree must divide, ``degree``, 0 for any, and with sequence
    parallelism ``sequence_degree``); convolutional networks are split neuron by neuron, other models as Megatron splits
    transformers.

    Slices are followed through the graph, and again as often as a normalisation needs the outputs of layers whole;
    these layers are then computed by every rank.
    """
    if (split := _neuron_split(graph)) is not None:
        return split
    attention = [operator.dimensions for operator in graph.operators if operator.kind == "attention"]
    heads = {sizes[name] for sizes in attention for name in ("head", "key_head") if name in sizes}
    routers = _routers(graph)
    copied: set[str] = set()
    while True:
        split, needed = _followed(graph, routers, copied, heads)
        if needed <= copied:
            return split
        copied |= needed


def _neuron_split(graph: ComputeGraph) -> TensorSplit | None:
    """Return the split of a convolutional network by neurons, every layer by its output channels, of degree 0, as any
    tensor degree will do: all operators but the inputs are divided, and nothing is all-reduced; layers that read across
    channels gather their first input, each tensor once; None for other models: without a convolution, or with an
    operator other than convolutions, linear layers, normalisations, softmax, pooling, elementwise ones and the like (an
    attention, an embedding)."""
    kinds = {operator.kind for operator in graph.operators}
    if "conv" not in kinds or not kinds <= _CHANNELWISE | _ACROSS:
        return None
    none = np.zeros(len(graph.operators), np.bool_)
    gathered, whole = none.copy(), {operator.name for operator in graph.operators if operator.kind == "input"}
    for index, operator in enumerate(graph.operators):
        of_own_channels = 1 < operator.dimensions.get("groups", 1) == operator.dimensions.get("in_channel")
        if operator.kind in _ACROSS and not of_own_channels and not whole.issuperset(operator.inputs[:1]):
            gathered[index] = True
            # Layers that read one tensor gather it once, and add up its gradient first.
            whole.update(operator.inputs[:1])
    divided = np.array([operator.kind != "input" for operator in graph.operators], np.bool_)
    return TensorSplit(divided, divided, none, none, 0, divided, 1, gathered)


def _followed(
    graph: ComputeGraph, routers: set[str], copied: set[str], head_counts: set[int]
) -> tuple[TensorSplit, set[str]]:
    """Return the split in which every rank computes the ``routers`` and ``copied`` layers whole, and the names of
    further layers that must be copied for it to work, since a normalisation over all channels reads their slices; empty
    where none must.

    Attention that reads a copied layer beside slices is not split, since the copied layer's gradient would have to be
    summed: the degree is then 1.

    Linear and expert layers that read whole tensors are split by their outputs, which stay in slices; those that read
    slices by their inputs, and their outputs are all-reduced, as those of embedding tables split by rows. Other
    operators that read slices work on slices. The degree is the common divisor of the heads and of the inputs of layers
    split by inputs; it is 1 without attention, and where slices reach an operator that needs them whole.

    Args:
        graph: the model.
        routers: names of the linear layers that score experts.
        copied: names of the layers that are computed whole so far.
        head_counts: numbers of heads of the model's attention, by which normalisations of single heads are known.
    """
    count = len(graph.operators)
    divided, sliced, forward, backward = (np.zeros(count, np.bool_) for _ in range(4))
    is_sliced: dict[str, bool] = {}
    cut: dict[str, set[str]] = {}
    copies: set[str] = set()
    returned: set[str] = set()
    needed: set[str] = set()
    common, works = 0, True
    for index, operator in enumerate(graph.operators):
        read = [is_sliced[name] for name in operator.inputs]
        cut[operator.name] = set().union(*(cut[name] for name in operator.inputs))
        if operator.name in copied or (operator.kind not in _MULTIPLIES and copies & set(operator.inputs)):
            copies.add(operator.name)
        if operator.kind in _MULTIPLIES and operator.name not in routers | copied:
            divided[index] = True
            forward[index], sliced[index] = any(read), not any(read)
            cut[operator.name] = {operator.name} if sliced[index] else set()
            if sliced[index] and not returned.issuperset(operator.inputs[:1]):
                backward[index] = True
                returned.update(operator.inputs[:1])
        elif operator.kind == "embedding" and "sample" in operator.dimensions:
            divided[index] = forward[index] = True
        elif any(read):
            divided[index] = sliced[index] = True
            if operator.kind == "norm" and not _has_heads(operator, head_counts):
                needed |= cut[operator.name]
                works = False
            works = works and operator.kind in _SLICEWISE
            if operator.kind == "attention" and copies & set(operator.inputs):
                works = False
            copies.discard(operator.name)
        common = gcd(common, _must_divide(operator, sliced=any(read)))
        is_sliced[operator.name] = bool(sliced[index])
    degree = common if works and any(operator.kind == "attention" for operator in graph.operators) else 1
    sequenced = _sequence_slices(graph, sliced)
    return TensorSplit(divided, sliced, forward, backward, degree, *sequenced, np.zeros(count, np.bool_)), needed


def _has_heads(operator: Operator, counts: set[int]) -> bool:
    """Return whether some unnamed axis of the output but the last has as many elements as there are heads (one of
    ``counts``), which is taken to mean that a normalisation treats the channels of each head alone."""
    *axes, _ = operator.dimensions.items()
    return any(name.startswith("axis") and size in counts for name, size in axes)


def _sequence_slices(graph: ComputeGraph, sliced: Mask) -> tuple[Mask, int]:
    """Return a mask of the outputs that lie in slices of the sequence with sequence parallelism, [operators] (those
    with samples and a sequence, neither sliced already nor inputs of the model), and the number that the tensor degree
    must divide: the common divisor of their sequences' lengths, 1 where one of these operators mixes tokens, another
    operator than a linear or expert layer reads such slices and needs them whole, or there are none.

    ``sliced`` [operators] are the outputs that tensor parallelism already leaves in slices.
    """
    within = {
        operator.name: not cut and operator.kind != "input" and {"sample", "sequence"} <= operator.dimensions.keys()
        for operator, cut in zip(graph.operators, sliced.tolist(), strict=True)
    }
    common, works = 0, True
    for operator in graph.operators:
        read = [within[name] for name in operator.inputs]
        if within[operator.name]:
            common = gcd(common, operator.dimensions["sequence"])
            works = works and operator.kind in TOKENWISE
        elif any(read):
            # A column-parallel layer gathers the sequence; nothing else may need it whole.
            works = works and operator.kind in _MULTIPLIES
    return np.array([*within.values()], np.bool_), common if works and common else 1


def _must_divide(operator: Operator, *, sliced: bool) -> int:
    """Return the number that the tensor degree must divide for one operator: of attention the common divisor of its
    heads and key heads, of a linear or experts layer that reads slices (``sliced``) its input channels; 0 where any
    degree will do."""
    if operator.kind == "attention":
        return gcd(operator.dimensions.get("head", 1), operator.dimensions.get("key_head", 0))
    return operator.dimensions.get("in_channel", 1) if operator.kind in _MULTIPLIES and sliced else 0


def _routers(graph: ComputeGraph) -> set[str]:
    """Return the names of the linear layers that score experts: those from which only additions, activations, softmax
    and the like lead to a top-k. Every rank computes them whole, as it must know the choice."""
    scores: set[str] = set()
    routers: set[str] = set()
    for operator in reversed(graph.operators):
        if operator.kind == "topk" or (operator.name in scores and operator.kind in _SCORES):
            scores.update(operator.inputs)
        elif operator.name in scores and operator.kind == "linear":
            routers.add(operator.name)
    return routers


# Expert parallelism: who holds which experts of a mixture, and where tokens travel to them and back.
#
# tokens ─► all-to-all ─► [experts] ─ ... ─ [experts] ─► all-to-all ─► tokens        backward the same, the other way
#
# A group of ep neighbouring replicas holds each expert once, and each rank E / ep of them; everything else is
# replicated as ever. Every rank has tokens for every expert, in equal parts: the load is taken to be even, so that a
# rank computes as much as with all experts at home. Gradients of experts are exchanged between the dp / ep ranks that
# hold the same ones. Sources: Lepikhin et al., "GShard", ICLR 2021, section 3; Rajbhandari et al., "DeepSpeed-MoE",
# ICML 2022.


@dataclass(frozen=True, slots=True)
class ExpertSplit:
    """How a graph's experts fall to the ranks of an expert group; each array has shape [operators]."""

    held: Mask
    """Every rank holds its share of the parameters: the experts."""
    dispatch: Mask
    """Tokens that the operator reads are exchanged all-to-all before it, their gradients after its backward pass."""
    combine: Mask
    """The operator's output is exchanged all-to-all, its gradient before the backward pass."""
    degree: int
    """Number that the expert degree must divide: the experts of a layer; 1 without any, or where outputs do not come
    together in a last product with experts."""


def expert_split(graph: ComputeGraph, split: TensorSplit) -> ExpertSplit:
    """Return the split of the graph among an expert group, whose ranks each hold a share of the experts: tokens go out
    where the first of a chain of products with experts reads them, and come back after the last. Masks [operators] say
    which operators' parameters are shared out (``held``: all experts), before which (``dispatch``) and after which
    (``combine``) tokens are exchanged all-to-all; ``degree``, the common divisor of the numbers of experts, is what the
    expert-parallel degree must divide, 1 without experts or where tokens do not come back. ``split`` is the tensor
    split of the same graph."""
    held = np.array([operator.kind == "experts" for operator in graph.operators], np.bool_)
    combine = held & split.forward
    inside: dict[str, bool] = {}
    common, works = 0, True
    for index, operator in enumerate(graph.operators):
        reads = any(inside[name] for name in operator.inputs)
        within = bool(split.sliced[index]) and (reads or bool(held[index]))
        works = works and (not reads or within or bool(combine[index]))
        inside[operator.name] = within
        common = gcd(common, operator.dimensions.get("expert", 0))
    readers = graph.consumers()
    returns = all(readers[name] for name, within in inside.items() if within)
    return ExpertSplit(held, held & split.backward, combine, common if works and returns and common else 1)


# Context parallelism: the ranks of a group share the tokens of every sample (ring attention).
#
# rank 0   queries 0   keys, values 0 ─► 3 ─► 2 ─► 1     each step, a rank computes attention of its queries with
# rank 1   queries 1   keys, values 1 ─► 0 ─► 3 ─► 2     one block of keys and values, while it sends that block on
# ...                                                    and the next one arrives
#
# Everything but attention works on single tokens, so that a rank of cp does 1/cp of the work and keeps 1/cp of the
# activations. Backward, keys and values go round again with the gradients gathered for them, which take one step more
# to come home. All ranks hold the same parameters; gradients are reduced over dp · cp ranks.
#
# Causal attention gives the ranks equal work only where each takes two pieces of the sequence, one from either end
# (zig-zag), which is assumed. Sources: Liu et al., "Ring Attention with Blockwise Transformers", ICLR 2024; Llama
# team, "The Llama 3 Herd of Models", 2024, section 3.3.2; Megatron Core's ``--context-parallel-size``.

LEAST_TOKENS = 4096
"""Tokens that a search leaves to each rank of a context group at least; an assumption."""
_ATTENTION_SIZES = frozenset({"sequence", "key_sequence", "head", "head_dim"})
_ANY_TOKENS = frozenset({"input", "experts", "topk"})
"""Kinds whose dimensions need not name the sequence."""


def context_degree(graph: ComputeGraph) -> int:
    """Return the number that the context-parallel degree must divide: the common divisor of all attention's sequence
    lengths, of queries and of keys, or half of it where any attention is causal, which takes two pieces for each rank.

    It is 1 without attention, where attention does not state its sizes, and where another operator mixes tokens.
    """
    attention = [operator for operator in graph.operators if operator.kind == "attention"]
    if not attention or not all(operator.dimensions.keys() >= _ATTENTION_SIZES for operator in attention):
        return 1
    sequences = {operator.dimensions[name] for operator in attention for name in ("sequence", "key_sequence")}
    lengths = {operator.name: _length(operator, sequences) for operator in graph.operators}
    for operator in graph.operators:
        if "sample" in operator.dimensions and operator.kind not in _ANY_TOKENS:
            read = {lengths[name] for name in operator.inputs} - {0}
            if not _sliceable(operator, lengths[operator.name], read):
                return 1
    common = gcd(*sequences)
    return max(common // 2 if any(operator.causal for operator in attention) else common, 1)


def _length(operator: Operator, sequences: set[int]) -> int:
    """Return the tokens of a sample in an operator's output: the size of its ``sequence``, else of an unnamed axis that
    is as long as one of ``sequences``; 0 without."""
    sizes = operator.dimensions
    unnamed = [size for name, size in sizes.items() if name.startswith("axis") and size in sequences]
    return sizes.get("sequence", unnamed[0] if unnamed else 0)


def _sliceable(operator: Operator, length: int, read: set[int]) -> bool:
    """Return whether an operator whose output has ``length`` tokens a sample (0: none) can be computed on slices of the
    sequence: attention always, else, where it has tokens, one that does to each token the same, the loss, and a
    concatenation whose inputs with tokens are all as long; ``read`` are the lengths of those inputs that have
    tokens."""
    if operator.kind == "attention":
        return True
    if not length or operator.kind not in TOKENWISE | {"concat", "loss"}:
        return False
    return operator.kind != "concat" or read <= {length}


def searched_degrees(graph: ComputeGraph) -> list[int]:
    """Return the context-parallel degrees that a search tries, ascending from 1: divisors of :func:`context_degree`
    that leave every rank at least :data:`LEAST_TOKENS` (4,096) of the longest attention's sequence; [1] where no larger
    one does."""
    lengths = [each.dimensions.get("sequence", 0) for each in graph.operators if each.kind == "attention"]
    longest = max(lengths, default=0)
    degree = context_degree(graph) if longest >= 2 * LEAST_TOKENS else 1
    return [cp for cp in range(1, longest // LEAST_TOKENS + 1) if degree % cp == 0] or [1]


def key_value_elements(graph: ComputeGraph) -> Ints:
    """Return the number of elements of keys and values together of each attention operator, over all samples of the
    graph's batch: 2 · samples · keys · key heads · size of a head: [operators]; 0 for other operators, and for
    attention whose sizes are not stated."""
    elements = np.zeros(len(graph.operators), np.int64)
    for index, operator in enumerate(graph.operators):
        sizes = operator.dimensions
        if operator.kind == "attention" and sizes.keys() >= _ATTENTION_SIZES:
            heads = sizes.get("key_head", sizes["head"])
            elements[index] = 2 * sizes.get("sample", 1) * sizes["key_sequence"] * heads * sizes["head_dim"]
    return elements


# Tied tables: weights that an embedding and the head of a model share.
#
# stage 0   [embedding]  layers ...               stage p−1   ... layers  [head]
# └────────── gradients of the table, added up once a step ──────┘
#
# A pipeline whose stages hold both keeps a copy in each, and these stages add up its gradients after every other
# exchange. Source: Narayanan et al., SC 2021, and ``_allreduce_word_embedding_grads`` in Megatron Core's
# ``distributed/finalize_model_grads.py``.


class TiedTable(NamedTuple):
    """A table that several operators read."""

    owner: int
    """The operator whose parameters it counts to."""
    readers: tuple[int, ...]
    """Operators that read it later."""
    parameters: int


def tied_tables(graph: ComputeGraph) -> tuple[TiedTable, ...]:
    """Return the tables of embeddings that at least one later operator reads without parameters of its own, in graph
    order, each as (index of the embedding, indices of these readers, number of its parameters).

    Such a reader is an embedding without parameters of as many channels, or a linear layer with fewer parameters than
    its weight has, which is as large as the table.
    """
    readers: dict[int, list[int]] = {}
    for index, operator in enumerate(graph.operators):
        owner = next((place for place in readers if _reads_table(operator, graph.operators[place])), None)
        if owner is not None:
            readers[owner].append(index)
        elif operator.kind == "embedding" and operator.parameters:
            readers[index] = []
    return tuple(
        TiedTable(owner, tuple(found), graph.operators[owner].parameters) for owner, found in readers.items() if found
    )


def _reads_table(operator: Operator, owner: Operator) -> bool:
    """Return whether an operator reads the table of the embedding ``owner`` in place of parameters of its own: an
    embedding without any of as many channels, or a linear layer whose weight has as many elements as the table, and
    more than the layer states as its parameters."""
    sizes = operator.dimensions
    if operator.kind == "embedding":
        return not operator.parameters and sizes.get("channel") == owner.dimensions.get("channel")
    weight = sizes.get("channel", 0) * sizes.get("in_channel", 0)
    return operator.kind == "linear" and operator.parameters < weight == owner.parameters


def holding_stages(table: TiedTable, edges: Ints, stages: int) -> list[int]:
    """Return the pipeline stages that hold a copy of a tied table, because its owner or a reader lies there, ascending
    and each once.

    ``edges`` are the first operators of the chunks and, last, the number of operators; chunk c belongs to stage c mod
    ``stages``.
    """
    return sorted({int(stage) for stage in _stages_of((table.owner, *table.readers), edges, stages)})


def copied_parameters(tables: Sequence[TiedTable], starts: Ints, edges: Ints, stages: int) -> Floats:
    """Return the parameters that blocks hold besides their own, as their pipeline stage needs a copy of a tied table:
    [blocks]. A stage's copy counts at the block of its first reader, and not at the stage of the table's owner.

    Args:
        tables: tied tables of the model.
        starts: first operators of blocks.
        edges: first operator of each chunk and, last, the number of operators.
        stages: number of stages; chunk c belongs to stage c mod ``stages``.
    """
    copies = np.zeros(len(starts))
    for table in tables:
        holders = {int(_stages_of((table.owner,), edges, stages)[0])}
        for reader, stage in zip(table.readers, _stages_of(table.readers, edges, stages).tolist(), strict=True):
            if stage not in holders:
                copies[np.searchsorted(starts, reader, "right") - 1] += table.parameters
                holders.add(stage)
    return copies


def _stages_of(operators: Sequence[int], edges: Ints, stages: int) -> Ints:
    """Return the stage of each operator, given by its index: [operators], that of its chunk modulo ``stages``;
    ``edges`` are the first operators of the chunks and, last, the number of operators."""
    return (np.searchsorted(edges, operators, "right") - 1) % stages
