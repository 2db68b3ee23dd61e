"""The largest values are the same on the host and on devices, the first ones of equal size, NaN as infinity."""

import numpy as np
import torch
from hypothesis import given
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
