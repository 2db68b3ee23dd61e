"""The batch that a plan takes where none is asked for: what the papers of its model state, or a named assumption.

``published.yaml`` lists families of models with their sources. Decoders of no family there follow GPT-3's sizes,
interpolated by parameters; other models with convolutions take 256 images.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.core.configfile import read_yaml
from lightloom.models.graph import ComputeGraph
from lightloom.planning.search.plans import sequence_length

_IMAGES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBatch:
    """The size of one training step of a model."""

    amount: int
    unit: str
    """``tokens``, ``images`` or ``samples``: what is counted."""
    source: str
    """Publication and place in it; of an assumption, what it follows."""
    assumed: bool = False
    """True if the amount is not published for this model, but follows a rule."""
    most: int | None = None
    """The largest amount that the source states; None where it states one alone."""

    def samples(self, length: int | None) -> int:
        """Return the number of samples of a step: of an amount in tokens, those over ``length``, the tokens of a
        sample, rounded down and at least one; of images or samples, or where ``length`` is None, the amount as it
        is."""
        return max(1, self.amount // length) if self.unit == "tokens" and length is not None else self.amount


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultBatch:
    """The samples of a step on so many ranks that are nearest to what is published."""

    published: PublishedBatch
    ranks: int
    length: int | None
    """Tokens in a sample; None for models without attention over a sequence."""

    @property
    def samples(self) -> int:
        """Number of samples of a step: the ranks times the power of two for which this comes nearest (by difference;
        the smaller of two as near) to what is published, at least one sample a rank."""
        wanted = self.published.samples(self.length)
        doubled = self.ranks << max(0, (wanted // self.ranks).bit_length() - 1)
        return min((doubled, 2 * doubled), key=lambda samples: abs(samples - wanted))

    @property
    def words(self) -> str:
        """The step in words, such as ``512 x 4,096 tokens a step``, or ``256 images a step`` where the published amount
        is not in tokens."""
        size = f" x {self.length:,}" if self.published.unit == "tokens" and self.length else ""
        return f"{self.samples:,}{size} {self.published.unit} a step"

    @property
    def line(self) -> str:
        """One line with the step in words, what is published or assumed, and its source; and, where it applies, that
        the ranks forced the batch up."""
        published, wanted = self.published, self.published.samples(self.length)
        forced = f", as {self.ranks:,} ranks need a sample each" if self.ranks > wanted else ""
        amount = f"{published.amount:,}"
        if published.unit == "tokens":
            amount = f"{published.amount / 1e6:.3g}M tokens" + (f", {wanted:,} samples" if forced else "")
        return f"{self.words}{forced} ({'assumed' if published.assumed else 'published'}: {amount}; {published.source})"


def published_batch(graph: ComputeGraph) -> PublishedBatch | None:
    """Return the batch that is published for a model's family, the first whose pattern (a regular expression) is found
    in the last two parts of the path that is its name, in lower case; families that count in tokens need attention over
    a sequence, and of a family with amounts by size the one whose number of parameters is nearest counts. Else an
    assumed one: for models with an embedding and attention the tokens of GPT-3's batches by parameters, for models with
    convolutions 256 images. None where no rule fits, as for a network of linear layers alone."""
    name, length = "/".join(Path(graph.name).parts[-2:]).lower(), sequence_length(graph)
    for family in _published()["families"]:
        if re.search(family["pattern"], name) and (family["unit"] != "tokens" or length is not None):
            fields = {key: value for key, value in family.items() if key != "pattern"}
            return PublishedBatch(**fields | {"amount": _nearest(family["amount"], graph.parameters)})
    kinds = {operator.kind for operator in graph.operators}
    if length is not None and "embedding" in kinds:
        source = f"GPT-3's, arXiv 2005.14165, table 2.1, interpolated at {graph.parameters / 1e9:.3g}B parameters"
        return PublishedBatch(amount=decoder_tokens(graph.parameters), unit="tokens", source=source, assumed=True)
    if "conv" in kinds:
        source = "as of ResNet, VGG and DenseNet in their papers"
        return PublishedBatch(amount=_IMAGES, unit="images", source=source, assumed=True)
    return None


def default_batch(graph: ComputeGraph, ranks: int) -> DefaultBatch | None:
    """Return the published or assumed batch of a model, fitted to a number of ranks; None where no rule fits the
    model."""
    published = published_batch(graph)
    if published is None:
        return None
    return DefaultBatch(published=published, ranks=ranks, length=sequence_length(graph))


def decoder_tokens(parameters: int) -> int:
    """Return the tokens of a step of a decoder with so many parameters: GPT-3's batches, interpolated in the logarithms
    of both; constant below its smallest and above its largest model."""
    sizes, tokens = np.log(np.array(_published()["decoders"], dtype=float).T)
    return round(float(np.exp(np.interp(np.log(max(1, parameters)), sizes, tokens))))


@cache
def _published() -> Mapping[str, Any]:
    """Return the content of ``published.yaml`` beside this module, read once."""
    return read_yaml(Path(__file__).with_suffix(".yaml"))


def _nearest(amount: int | list[list[int]], parameters: int) -> int:
    """Return an amount that is one number as it is; of a list of [parameters, amount] the amount whose parameters have
    the ratio nearest to one to ``parameters``."""
    if isinstance(amount, int):
        return amount
    return min(amount, key=lambda size: abs(np.log(size[0] / max(1, parameters))))[1]
