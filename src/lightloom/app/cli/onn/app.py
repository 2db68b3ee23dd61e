"""``lightloom onn``: averaging networks, from their weights to the phases of their meshes and back to accuracy."""

import typer

from lightloom.app.cli.main import Entry, lazy_group

COMMANDS = {
    "build": Entry(
        "lightloom.app.cli.onn.build", "Write down the smallest network that averages exactly, and prove it."
    ),
    "train": Entry(
        "lightloom.app.cli.onn.train",
        "Train a network to average; without options scenario 1, every matrix approximated, in some minutes.",
    ),
    "verify": Entry(
        "lightloom.app.cli.onn.build",
        "Try a network on every point of its grid (up to 20 million), or on the hardest ones; prove it if it is ours.",
    ),
    "map": Entry(
        "lightloom.app.cli.onn.map",
        "Decompose matrices into MZI meshes: counts, columns, gain, error, phases; or check a file of phases.",
        "map_to_meshes",
    ),
    "disturb": Entry(
        "lightloom.app.cli.onn.disturb",
        "Fabricate a network's meshes many times, and count how often the average still comes out right.",
    ),
    "chip": Entry(
        "lightloom.app.cli.onn.map",
        "Lay out a whole averager (P, layers, gains, units, T): footprint, heaters, ports, netlist, GDS.",
    ),
    "calibrate": Entry(
        "lightloom.app.cli.onn.calibrate",
        "Calibrate simulated chips with unknown errors from their output powers, and count the measurements.",
    ),
    "compare-reducers": Entry(
        "lightloom.app.cli.onn.compare_reducers",
        "Compare networks, sums of digits, reducer chips and switches: energy, latency, light, limits, the verdict.",
        "compare_reducers",
    ),
    "link": Entry(
        "lightloom.app.cli.onn.link",
        "Send words through an averager in watts: word error rate, what causes it, lasers, peaks.",
    ),
}

onn = typer.Typer(
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    help="Build, train, verify, map, disturb and calibrate networks that average inside the light (OptINC).",
)


@onn.callback()
def _group() -> None:
    """Makes a group of commands that are not registered."""
