"""Named axes of the outputs of an execution trace, which records shapes alone."""

from __future__ import annotations

_SPATIAL = ("height", "width", "depth")
_IMAGES = ("conv", "pool", "batch_norm", "activation", "add")


def sampled_axes(kind: str, shape: tuple[int, ...], batch: int) -> dict[str, int]:
    """Name the axes of an output that depends on the samples, by its kind and rank."""
    if not shape or shape[0] % batch:
        return {"sample": batch} | {f"axis_{i + 1}": size for i, size in enumerate(shape)}
    if shape[0] != batch:
        inner = ("sequence", "channel") if len(shape) == 2 else ("sequence", *_axis_names(len(shape) - 1))
        return {"sample": batch} | dict(zip(inner, (shape[0] // batch, *shape[1:]), strict=True))
    if kind in _IMAGES and 4 <= len(shape) <= 5:
        inner = ("channel", *_SPATIAL[: len(shape) - 2])
    else:
        inner = {1: (), 2: ("channel",), 3: ("sequence", "channel")}.get(len(shape), _axis_names(len(shape) - 1))
    return {"sample": batch} | dict(zip(inner, shape[1:], strict=True))


def convolution_sizes(inputs: tuple[int, ...], weight: tuple[int, ...], outputs: tuple[int, ...]) -> dict[str, int]:
    """Channels that are summed over, kernel and groups."""
    in_channel = inputs[1] if len(inputs) == len(weight) else inputs[0]
    out_channel = outputs[1] if len(outputs) == len(weight) else outputs[0]
    transposed = weight[0] == in_channel and weight[0] != out_channel
    groups = out_channel // weight[1] if transposed else in_channel // weight[1]
    names = (
        ("length",) if len(weight) == 3 else ("height", "width") if len(weight) == 4 else ("depth", "height", "width")
    )
    kernel = {f"kernel_{name}": size for name, size in zip(names, weight[2:], strict=False)}
    return {"in_channel": in_channel, **kernel, "groups": max(1, groups)}


def _axis_names(count: int) -> tuple[str, ...]:
    return tuple(f"axis_{i + 1}" for i in range(count))
