"""``calibrate``: parameters of an accelerator or a transport, fitted to what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import overload

from lightloom.accelerators.load import load_accelerator
from lightloom.api.calibrations import Fitted, StepsCalibration
from lightloom.api.collective_accuracy import TransportCalibration, calibrate_transport
from lightloom.api.profiles import ProfileCalibration
from lightloom.calibration.calibrate import calibrate as fit_to
from lightloom.calibration.calibrate import fits_of
from lightloom.calibration.priors import kernel_model
from lightloom.calibration.rows import read_steps
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance
from lightloom.interchange.traces.kineto import read_profile
from lightloom.reports.progress import progress


@overload
def calibrate(rows: str | Path, *, accelerator: str) -> StepsCalibration: ...


@overload
def calibrate(
    *,
    collectives: str | Path,
    accelerator: str | None = None,
    cluster: str | None = None,
    transport: str | None = None,
    gpus: int | None = None,
) -> TransportCalibration: ...


@overload
def calibrate(*, accelerator: str, profile: str | Path) -> ProfileCalibration: ...


@overload
def calibrate(
    rows: str | Path | None = None,
    *,
    accelerator: str | None = None,
    collectives: str | Path | None = None,
    profile: str | Path | None = None,
    cluster: str | None = None,
    transport: str | None = None,
    gpus: int | None = None,
) -> Fitted: ...


def calibrate(
    rows: str | Path | None = None,
    *,
    accelerator: str | None = None,
    collectives: str | Path | None = None,
    profile: str | Path | None = None,
    cluster: str | None = None,
    transport: str | None = None,
    gpus: int | None = None,
) -> Fitted:
    """Fit an accelerator's parameters to measured steps or to a profile of one, or a transport to timed collectives.

    >>> calibrate("steps.csv", accelerator="a100").save("my-a100.yaml")
    >>> plan("gpt2-355m", cluster="a100-1024-two-tier", accelerator="my-a100.yaml")
    >>> calibrate(collectives="nccl-tests.txt", cluster="dgx-h100-64").save("my-nccl.yaml")
    >>> plan("gpt2-355m", cluster="dgx-h100-64", set={"fabric.transport": "my-nccl.yaml"})

    Args:
        rows: a table of measured steps, a file or a name in the folder ``LIGHTLOOM_MEASURED``.
        accelerator: what was measured on: a name of the catalog, or a YAML file.
        collectives: timed collectives instead of steps: a table, or what nccl-tests prints.
        cluster: what the collectives were measured on, where they leave a node: a name of the catalog, or a YAML file.
        transport: what carries them, where it is not the one that the accelerators name.
        profile: a profile of ``torch.profiler`` instead (.json, .json.gz): its operators beside predictions, and the
            parameters of the kernel model that they determine.
        gpus: number of GPUs of the collectives, where their file does not say it.

    Raises:
        ConfigError: a file is missing, or a row cannot be expressed (names file, row and column).
        UnsupportedError: the accelerator has no kernel model.
    """
    if sum(source is not None for source in (rows, collectives, profile)) != 1:
        raise ConfigError("expected a table of measured steps, --collectives or --profile: one of the three")
    of_collectives = {"--gpus": gpus, "--cluster": cluster, "--transport": transport}
    if collectives is None and (given := [f"{name} {value}" for name, value in of_collectives.items() if value]):
        raise ConfigError(f"{given[0]}: of collectives, of which there are none: expected --collectives")
    if collectives is not None:
        if accelerator is not None and cluster is not None:
            raise ConfigError(f"--accelerator {accelerator}: --cluster {cluster} states it: expected one of them")
        return calibrate_transport(
            collectives, cluster=cluster, transport=transport, accelerator=accelerator, gpus=gpus
        )
    if accelerator is None:
        raise ConfigError("expected --accelerator, what was measured on")
    if profile is not None:
        return _on_profile(Path(profile), accelerator)
    steps = read_steps(str(rows))
    with progress("Fits", fits_of(len(steps))) as advance:
        calibration = fit_to(steps, accelerator, advance)
    return StepsCalibration(calibration, provenance([steps.sha256, accelerator], seed=0))


def _on_profile(path: Path, accelerator: str) -> ProfileCalibration:
    machine = load_accelerator(accelerator)
    kernel_model(machine)
    profile = read_profile(path)
    return ProfileCalibration(profile, accelerator, machine, provenance([profile.sha256, accelerator], seed=0))
