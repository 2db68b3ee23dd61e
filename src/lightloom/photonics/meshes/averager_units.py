"""The units around the network of OptINC: P averages digits over servers, T sends the result to every server.

    server 1 ─M─▶ ┌───┐        ┌─────────┐        ┌───┐ ─M─▶ server 1
       ...        │ P │ ──K──▶ │ network │ ──M──▶ │ T │       ...
    server N ─M─▶ └───┘        └─────────┘        └───┘ ─M─▶ server N

Both are matrices that :func:`map_matrix` maps to meshes (OptINC paper, Sec. III-A, Fig. 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def preprocessing_matrix(servers: int, signals: int, inputs: int) -> NDArray[np.float64]:
    """Return P [inputs, servers · signals]: A_k is the mean over servers of the number that its PAM4 digits spell.

    Signal j of server n is column n · signals + j, most significant first. Each A_k takes g = ⌈signals/inputs⌉ digits
    (the first ones fewer where they do not divide), weights 4^{g−1}, ..., 4, 1, so it ranges to 4^g − 1.

    Raises:
        ConfigError: there are no servers or signals, or more inputs than signals fill.
    """
    if servers < 1 or signals < 1 or inputs < 1:
        raise ConfigError(f"servers={servers}, signals={signals}, inputs={inputs}: expected at least 1 of each")
    group = -(-signals // inputs)
    if -(-signals // group) != inputs:
        raise ConfigError(f"inputs={inputs}: {signals} signals in groups of {group} fill {-(-signals // group)}")
    weights = np.zeros((inputs, signals))
    for j in range(signals):
        place = signals - 1 - j  # position above the least significant digit
        weights[inputs - 1 - place // group, j] = 4.0 ** (place % group)
    return np.tile(weights / servers, (1, servers))


def splitting_matrix(servers: int, signals: int) -> NDArray[np.float64]:
    """Return T [servers · signals, signals]: every server receives every signal with its amplitude divided by √servers.

    The columns are orthonormal: splitting loses no light, but each server receives 1/servers of the power.

    Raises:
        ConfigError: no servers or signals.
    """
    if servers < 1 or signals < 1:
        raise ConfigError(f"servers={servers}, signals={signals}: expected at least 1 of each")
    return np.asarray(np.tile(np.eye(signals), (servers, 1)) / np.sqrt(servers))


def splitting_loss_db(servers: int, *, columns: int = 0, loss_db: float = 0.0) -> float:
    """Return the loss from a signal before T to a server's copy in dB: 10 log₁₀ servers, and ``loss_db`` per column.

    Raises:
        ConfigError: there are no servers, or a loss is negative.
    """
    if servers < 1 or columns < 0 or not loss_db >= 0:
        raise ConfigError(f"servers={servers}, columns={columns}, loss_db={loss_db}: expected 1, 0 and 0 or more")
    return float(10 * np.log10(servers) + columns * loss_db)


def received_power(launched: float, loss_db: float, gain_db: float = 0.0) -> float:
    """Return the power at a receiver after ``loss_db`` of loss and ``gain_db`` of amplification, in watts."""
    if not launched > 0:
        raise ConfigError(f"launched={launched}: expected a power above 0 W")
    return float(launched * 10 ** ((gain_db - loss_db) / 10))
