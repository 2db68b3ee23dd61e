"""The zoo's index, without PyTorch: what each name is, its size, its source, and where the module is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooEntry:
    """One model of the zoo."""

    name: str
    description: str
    parameters: int
    """Published count; where the paper rounds, the exact count of the published layout."""
    source: str
    path: str
    """``module:factory``."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Given to the factory."""
    example: str
    """One sample, as used when nothing else is asked for."""
    sequence_length: int | None = None
    """Tokens in a sample; none for models that do not take tokens."""


_ZOO = "lightloom.workloads.torch.zoo"
_RESNET = "He et al., arXiv 1512.03385"
_SZEGEDY = "Szegedy et al., arXiv 1409.4842"
_PLAIN = {"auxiliary": False}
_FIRST = {"stride_first": True}


def _image(
    name: str,
    description: str,
    parameters: int,
    source: str,
    path: str,
    arguments: Mapping[str, Any] | None = None,
    size: int = 224,
) -> ZooEntry:
    return ZooEntry(
        name=name,
        description=description,
        parameters=parameters,
        source=source,
        path=f"{_ZOO}.{path}",
        arguments=arguments or {},
        example=f"image 3 x {size} x {size}",
    )


def _text(
    name: str,
    description: str,
    parameters: int,
    source: str,
    path: str,
    sequence_length: int,
    pair: bool = False,
) -> ZooEntry:
    return ZooEntry(
        name=name,
        description=description,
        parameters=parameters,
        source=source,
        path=f"{_ZOO}.{path}",
        example=f"{'2 x ' if pair else ''}{sequence_length} tokens",
        sequence_length=sequence_length,
    )


_ENTRIES = (
    _image(
        "alexnet",
        "AlexNet in today's single-tower form",
        61_100_840,
        "Krizhevsky, arXiv 1404.5997",
        "alexnet:alexnet",
    ),
    _image(
        "alexnet-2012",
        "AlexNet as published: two groups, LRN",
        60_965_224,
        "Krizhevsky et al., NIPS 2012",
        "alexnet:alexnet_2012",
    ),
    _image("vgg16", "VGG, configuration D", 138_357_544, "Simonyan, Zisserman, arXiv 1409.1556", "vgg:vgg16"),
    _image("vgg19", "VGG, configuration E", 143_667_240, "Simonyan, Zisserman, arXiv 1409.1556", "vgg:vgg19"),
    _image(
        "googlenet",
        "GoogLeNet with batch norm, in training: two auxiliary heads",
        13_004_888,
        _SZEGEDY,
        "googlenet:googlenet",
    ),
    _image(
        "googlenet-plain",
        "the same without auxiliary heads",
        6_624_904,
        _SZEGEDY,
        "googlenet:googlenet",
        _PLAIN,
    ),
    _image(
        "googlenet-2014",
        "GoogLeNet as published: 5 x 5 branch, LRN, no auxiliary heads",
        6_998_552,
        _SZEGEDY,
        "googlenet:googlenet_2014",
    ),
    _image(
        "inception-v3",
        "Inception-v3 in training: one auxiliary head",
        27_161_264,
        "Szegedy et al., arXiv 1512.00567",
        "inception:inception_v3",
        size=299,
    ),
    _image(
        "inception-v3-plain",
        "the same without auxiliary head",
        23_834_568,
        "Szegedy et al., arXiv 1512.00567",
        "inception:inception_v3",
        _PLAIN,
        299,
    ),
    _image("resnet50", "ResNet-50, stride in the 3 x 3 convolution", 25_557_032, _RESNET, "resnet:resnet50"),
    _image("resnet101", "ResNet-101, stride in the 3 x 3 convolution", 44_549_160, _RESNET, "resnet:resnet101"),
    _image("resnet152", "ResNet-152, stride in the 3 x 3 convolution", 60_192_808, _RESNET, "resnet:resnet152"),
    _image(
        "resnet50-2015",
        "ResNet-50 as published: stride in the first 1 x 1",
        25_557_032,
        _RESNET,
        "resnet:resnet50",
        _FIRST,
    ),
    _image("resnet101-2015", "ResNet-101 as published", 44_549_160, _RESNET, "resnet:resnet101", _FIRST),
    _image("resnet152-2015", "ResNet-152 as published", 60_192_808, _RESNET, "resnet:resnet152", _FIRST),
    _image(
        "densenet121",
        "DenseNet-121, growth 32",
        7_978_856,
        "Huang et al., arXiv 1608.06993",
        "densenet:densenet121",
    ),
    ZooEntry(
        name="hdc",
        description="handwritten digits: 784-500-500-500-500-10",
        parameters=1_149_010,
        source="INCEPTIONN, MICRO 2018, section VII",
        path=f"{_ZOO}.mlp:hdc",
        example="784 pixels",
    ),
    _text(
        "optinc-llama",
        "8 layers, hidden 384, 8 heads; vocabulary 32,000 and feed-forward 1024 assumed",
        38_738_304,
        "OptINC, arXiv 2603.28290",
        "llama:optinc_llama",
        256,
    ),
    _text(
        "transformer-big",
        "encoder-decoder, 6 + 6 layers, hidden 1024; vocabulary 37,000 assumed",
        214_171_648,
        "Vaswani et al., arXiv 1706.03762 (prints 213 M)",
        "transformer:transformer_big",
        64,
        pair=True,
    ),
    _text(
        "gpt2-355m",
        "GPT-2 medium, tied output layer",
        354_823_168,
        "Radford et al., 2019",
        "gpt2:gpt2_355m",
        1024,
    ),
    _text(
        "gpt3-175b",
        "GPT-3 as Megatron-LM trains it, tied output layer, vocabulary 51,200",
        174_615_846_912,
        "Brown et al., arXiv 2005.14165; Narayanan et al., SC 2021 (prints 174.6 B)",
        "gpt2:gpt3_175b",
        2048,
    ),
    _text(
        "mixtral-8x7b",
        "Mixtral 8x7B: 8 experts a layer, of which each token visits 2, load taken to be even",
        46_702_792_704,
        "Jiang et al., arXiv 2401.04088 (prints 47 B; Mistral AI's announcement 46.7 B, 12.9 B of them active)",
        "mixtral:mixtral_8x7b",
        4096,
    ),
    _text("llama2-7b", "Llama 2 7B", 6_738_415_616, "Touvron et al., arXiv 2307.09288", "llama:llama2_7b", 4096),
)

ZOO: Mapping[str, ZooEntry] = {entry.name: entry for entry in _ENTRIES}
"""Every model of the zoo, by name."""
