"""The largest values are the same on the host and on devices, the first ones of equal size, NaN as infinity."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.exchange.distributed.sparse_exchange import largest, largest_on_device, largest_on_host

values = st.lists(
    st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-45, -1e-45]),
        st.floats(width=32),
    ),
    min_size=2,
    max_size=60,
)


@given(values, st.data())
def test_hosts_and_devices_choose_the_same_values(numbers: list[float], data: st.DataObject) -> None:
    tensor = torch.tensor(numbers, dtype=torch.float32)
    count = data.draw(st.integers(1, len(numbers) - 1))
    chosen = largest(tensor, count)
    assert torch.equal(chosen, largest_on_host(tensor, count))
    assert torch.equal(chosen, largest_on_device(tensor, count))
    sizes = np.nan_to_num(np.abs(tensor.numpy()), nan=np.inf, posinf=np.inf)
    expected = sorted(range(len(numbers)), key=lambda k: (-sizes[k], k))[:count]
    assert chosen.tolist() == sorted(expected)


@settings(max_examples=30)
@given(
    st.sampled_from([1, 40, 3000, 40_000]), st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 2**32 - 1)
)
def test_large_tensors_of_which_a_sample_tells_the_bound(size: int, share: float, tied: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.standard_normal(size) * 2.0 ** random.integers(-130, 120, size)
    values[random.random(size) < tied] = random.choice([0.0, -1.0, np.inf, np.nan])
    found, count = torch.from_numpy(values.astype(np.float32)), max(1, round(share * (size - 1)))
    host = largest_on_host(found, count)
    assert torch.equal(host, largest_on_device(found, count))
    size_of = found.abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    assert torch.equal(size_of[host].sort().values, size_of.sort().values[size - count :])
