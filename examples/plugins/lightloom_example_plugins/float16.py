"""A codec: gradients in half precision. The parameter is the power of two that scales them."""

import numpy as np

from lightloom.core.errors import CodecError
from lightloom.exchange.compression.codec import Codec, float32_target, float32_values
from lightloom.exchange.compression.registry import Family


class Float16(Codec):
    """Half precision of values times ``2 ** power``."""

    def __init__(self, power=0):
        self.power = power

    @property
    def name(self):
        return f"float16:{self.power}"

    def encode(self, array, *, threads=1):
        scaled = np.clip(np.ldexp(float32_values(array), self.power), -65504, 65504)
        return memoryview(scaled.astype(np.float16)).cast("B")

    def decode(self, buffer, out=None, *, threads=1):
        stream = np.frombuffer(buffer, np.uint8)
        if stream.size % 2:
            raise CodecError(f"{stream.size} bytes: expected two for each value")
        values = np.ldexp(stream.view(np.float16).astype(np.float32), -self.power)
        if out is None:
            return values
        float32_target(out, values.size)[:] = values
        return out


FLOAT16 = Family(name="float16", build=Float16, read=int, default="0", summary="half precision, scaled by 2 ** power")
