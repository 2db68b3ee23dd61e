"""The constants that the paper leaves open, fitted to its ten headlines by least squares: run it as ``python -m
lightloom.studies.dadiannao.fit``.
"""

from __future__ import annotations

import sys
from math import sqrt

from lightloom.parallelism.dadiannao import Hops, mesh_hops
from lightloom.studies.dadiannao.model import MIXED, Bandwidths, Constants, savings
from lightloom.studies.dadiannao.paper import HEADLINE


def misfit(constants: Constants, bandwidths: Bandwidths = MIXED, hops: Hops = mesh_hops) -> float:
    """Return the root mean square of ours − paper over the ten headlines, in points."""
    ours = savings(constants, bandwidths, hops=hops).headlines()
    return sqrt(sum((ours[what] - paper) ** 2 for what, paper in HEADLINE.items()) / len(HEADLINE))


def two_constants(bandwidths: Bandwidths = MIXED, hops: Hops = mesh_hops) -> Constants:
    """Return the R and β ≥ 0 of the smallest misfit."""
    from scipy.optimize import minimize

    optimum = minimize(
        lambda x: misfit(Constants(passes=x[0], synapse=x[1] / 100), bandwidths, hops),
        x0=(5.0, 1.0),
        method="Nelder-Mead",
        bounds=((0.1, 100), (0, 100)),
        options={"xatol": 1e-3, "fatol": 1e-5},
    )
    return Constants(passes=float(optimum.x[0]), synapse=float(optimum.x[1]) / 100)


def one_constant(bandwidths: Bandwidths = MIXED) -> Constants:
    """Return the R of the smallest misfit with β = 0."""
    from scipy.optimize import minimize_scalar

    optimum = minimize_scalar(
        lambda passes: misfit(Constants(passes=passes), bandwidths), bounds=(0.1, 100), method="bounded"
    )
    return Constants(passes=float(optimum.x))


def calibrated(what: str, bandwidths: Bandwidths = MIXED) -> Constants:
    """Return the R that reproduces one headline with β = 0; the other nine are then predictions."""
    from scipy.optimize import brentq

    def error(passes: float) -> float:
        return savings(Constants(passes=passes), bandwidths).headlines()[what] - HEADLINE[what]

    return Constants(passes=float(brentq(error, 1, 40, xtol=1e-3)))


def main() -> None:
    """Print the fits and their misfits."""
    fits = {"two constants": two_constants(), "one constant": one_constant()}
    fits["20.6 alone"] = calibrated("time_average_100")
    for name, fitted in fits.items():
        constants = f"R = {fitted.passes:.2f}, beta = {fitted.synapse:.3f}"
        sys.stdout.write(f"{name}: {constants}, RMS {misfit(fitted):.2f} points\n")


if __name__ == "__main__":
    main()
