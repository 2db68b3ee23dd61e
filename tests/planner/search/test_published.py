"""The batch of a plan for which none is asked: sources, assumptions, and what the number of ranks does to it."""

from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.configfile import read_yaml
from lightloom.models.decoder import TransformerSizes, transformer_graph
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import ZOO, load_workload
from lightloom.planning.search import published
from lightloom.planning.search.published import decoder_tokens, default_batch, published_batch

_FAMILIES = read_yaml(Path(published.__file__).with_suffix(".yaml"))["families"]
_PARAMETERS = st.integers(0, 10**13)
_graph = cache(partial(load_workload, batch=1))


def _decoder(name: str) -> ComputeGraph:
    """A small decoder of 64 tokens a sample, with a name of its own."""
    sizes = TransformerSizes(hidden=64, layers=1, heads=1, ffn=64, vocabulary=100, sequence_length=64)
    return transformer_graph(sizes, batch=4, name=name)


@pytest.mark.parametrize("name", ZOO)
def test_every_model_of_the_zoo_has_a_batch_with_a_source_or_a_named_assumption(name: str) -> None:
    graph = _graph(name)
    batch = published_batch(graph)
    assert batch is not None and batch.source
    assert batch.unit == ("images" if ZOO[name].sequence_length is None else "tokens")
    for ranks in (1, 4, 64, 576, 1024, 16384):
        taken = default_batch(graph, ranks)
        assert taken is not None and 1 <= taken.samples <= 10_000_000 and taken.samples % ranks == 0
        assert ("assumed" if batch.assumed else "published") in taken.line and batch.source in taken.line


@given(_PARAMETERS, _PARAMETERS)
def test_decoders_take_more_tokens_with_more_parameters_and_gpt3s_at_its_sizes(one: int, other: int) -> None:
    assert decoder_tokens(min(one, other)) <= decoder_tokens(max(one, other))
    assert 500_000 <= decoder_tokens(one) <= 3_200_000
    assert [decoder_tokens(10**6 * size) for size in (125, 1300, 13_000, 175_000)] == [500e3, 1e6, 2e6, 3.2e6]


@given(st.sampled_from(list(ZOO)), st.integers(1, 20_000))
def test_ranks_share_the_samples_out_evenly_and_as_near_to_the_published_as_doubling_allows(
    name: str, ranks: int
) -> None:
    batch = default_batch(_graph(name), ranks)
    assert batch is not None
    wanted = batch.published.samples(batch.length)
    multiple, rest = divmod(batch.samples, ranks)
    assert rest == 0 and multiple & (multiple - 1) == 0
    assert batch.samples == ranks if ranks >= wanted else 2 / 3 * wanted <= batch.samples <= 4 / 3 * wanted
    assert ("need a sample each" in batch.line) == (ranks > wanted)


def test_a_line_says_what_is_published_and_what_the_ranks_force() -> None:
    graph = _graph("llama2-70b")
    source = "Touvron et al. 2023, arXiv 2307.09288, table 1"
    few, many = default_batch(graph, 256), default_batch(graph, 1024)
    assert few is not None and few.line == f"1,024 x 4,096 tokens a step (published: 4M tokens; {source})"
    assert many is not None and many.line == (
        f"1,024 x 4,096 tokens a step, as 1,024 ranks need a sample each (published: 4M tokens, 976 samples; {source})"
    )


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("gpt2", 524_288),
        ("models/GPT3-13B/config.json", 500_000),  # by its parameters, which are few here
        ("meta-llama/Llama-2-7b-hf/config.json", 4_000_000),
        ("meta-llama/Llama-3.1-405B/config.json", 16_000_000),
        ("llama3 8B", 4_000_000),
        ("llama-30b", 4_000_000),
        ("deepseek-ai/DeepSeek-V3/config.json", 62_914_560),
        ("bert-large", 131_072),
        ("open_llama_3b", 500_000),
        ("albert", 500_000),
        ("resnet/of/mine/config.json", 500_000),
    ],
)
def test_families_are_known_by_the_names_that_people_give(name: str, tokens: int) -> None:
    batch = published_batch(_decoder(name))
    assert batch is not None and batch.amount == tokens and batch.unit == "tokens"


def test_every_family_states_its_source_and_a_model_of_linear_layers_has_none() -> None:
    assert all(family["source"] and family["unit"] in ("tokens", "images", "samples") for family in _FAMILIES)
    hdc = _graph("hdc")
    assert published_batch(ComputeGraph(name="mine", batch=1, operators=hdc.operators)) is None
