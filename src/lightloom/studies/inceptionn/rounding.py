"""Records of runs as short JSON."""

from __future__ import annotations

import math
from typing import Any


def rounded(value: Any) -> Any:
    """Round all floats to six digits; what is not finite, such as the loss of a run that diverged, becomes None."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value
