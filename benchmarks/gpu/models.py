"""Models of the measured steps: names of the zoo, and factories of decoders that train on one GPU."""

from __future__ import annotations

from torch import nn

from lightloom.models.torch.zoo.llama import GPT2, llama


def gpt2_padded() -> nn.Module:
    """Return GPT-2 of 355 million parameters with a vocabulary of 50,304, a multiple of 64."""
    return GPT2(layers=24, hidden=1024, heads=16, vocabulary=50_304)


def gpt_1b() -> nn.Module:
    """Return GPT-3 XL's shape with GPT-2's vocabulary, padded: 24 layers of 2,048 (Brown et al., 2020, Table 2.1)."""
    return GPT2(layers=24, hidden=2048, heads=16, vocabulary=50_304, context=2048)


def llama_1b() -> nn.Module:
    """Return the shape of TinyLlama 1.1B with as many heads of keys as of queries."""
    return llama(hidden=2048, layers=22, heads=32, intermediate=5632, vocabulary=32000, sequence=2048)


def llama_3b() -> nn.Module:
    """Return the shape of OpenLLaMA 3B."""
    return llama(hidden=3200, layers=26, heads=32, intermediate=8640, vocabulary=32000, sequence=2048)
