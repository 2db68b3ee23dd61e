"""An accelerator: a chip that runs below its peak."""

from lightloom.machines.accelerators.accelerator import Accelerator


class Throttled(Accelerator):
    """A chip whose clock falls while it multiplies."""

    slowdown: float = 2.0
    """Peak over the rate that lasts."""

    def peak_rate(self, precision):
        return super().peak_rate(precision) / self.slowdown


CHIP = Throttled(name="throttled-chip", peak={"fp32": "20 TFLOPS", "bf16": "100 TFLOPS"}, memory="40GB")
