"""The page and the picture of circuits that follow the step (:mod:`benchmarks.reconfiguration`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightloom.core.units import format_size, format_time
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.group_prices import Planes
from lightloom.planning.reconfiguration.in_step import InStep
from lightloom.planning.search.plans import Plan, label
from lightloom.reports.figures.canvas import single_panel, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INTRO = """\
# Circuits that follow the step

Set the circuits of an optical switch anew between the phases of a training step, where that is faster:

    lightloom plan gpt2-355m --cluster sip-ocs-1024 --global-batch 256 --reconfigure-in-step --trace step.json

The groups of a split plan (tensor, expert, context and data groups, stages of a pipeline) exchange at different times
of a step. Circuits that stand divide the planes of the switch among them for the whole step. Circuits that follow the
step give all planes to the groups that exchange, and pay a turn of the switch where computing does not hide it. The
line of the plan says how often the switch turns, how much of that is hidden and what it gains; `in_step` of the JSON
document holds the planes of every group in every phase; the trace shows every turn on the lanes `planes`.

`python -m benchmarks.reconfiguration` makes this page.

"""

_MODEL = """\
## What is searched, and what is taken for granted

    phase       gather   passes                 last pass             gradients  closing   tied        update
    exchanges   data     tensor, expert,        the same, and         data       tensor    pipeline    nothing
                         context, pipeline      gradients beside it
    planes      data 8   tensor 6, pipeline 2   tensor 5, 2, data 1   data 8     tensor 8  pipeline 8  turn back

* The phases are a cycle. It is parted into segments in every way; phases of a segment share a division of the planes,
  the one that minimises the seconds of its phases; between segments the switch turns. Each way is simulated with its
  turns, and the fastest wins, every division that stands for the whole step among them. What is tried does not depend
  on the reconfiguration time, so that a slower switch never gains more, a switch that takes no time is never slower
  than circuits that stand, and one that takes forever equals them (tests).
* Planes turn from the last byte of their old groups on. Groups that are given planes wait for the turn, others go on:
  gradients beside the last pass wait for planes that the tensor groups give up when that pass begins, while these
  exchange on. Hidden is what a turn has in common with the optimizer's update, with the computing before the first
  exchange of the first pass and after the last exchange of the last one, and with a pipeline's bubbles.
* Stages are at different phases at a time. The planes of the pipeline therefore stay until a stage has sent its last
  gradient, and the ports of some ranks on a plane turn while others on it carry light: an assumption, true of mirrors
  that move one by one.
* The pipeline holds planes for both directions. Slices of a tensor group are not gathered after a send, since the
  planes of the group serve another micro-batch meanwhile. The switch turns for phases, not between two collectives of
  a pass.
* Collectives are verified schedules on as many planes as the group has. Every following step of this page is proved on
  its timeline by a checker that shares no code with the search: plane by plane, no transmission without its circuit or
  during a turn, no turn shorter than the reconfiguration time, no exchange faster than its bytes on its planes, all
  bytes sent (`simulation.switch_verify`).
* The bounds of the search are those of all planes for every group, so that pruning stays right.
* A plane that turns is dark for `reconfiguration_time` and `link_up_time` together. On `ocs-measured` these are 5.7 s,
  longer than most steps, so that no step turns a plane there; turning within a step asks for receivers in burst mode.
* Circuits of a tier (`circuit-switch` in the list of `tiers`, as around the blocks of `tpu-v4`) stand for the whole
  job, and `--reconfigure-in-step` refuses such clusters in one line. They form one torus for all groups instead of
  planes to share out; a turn would form another (other sizes, or a twist), which asks for prices of every group on
  every torus. What that could save is small where it was looked at: gathers and sums among all ranks take all six
  links of a chip on any of these tori, and sharded training of GPT-2 355M on 1,024 chips waits 0.95 ms of 703.5 ms
  for them (`plan gpt2-355m --cluster tpu-v4-1024 --strategy fsdp --algorithm hierarchical --global-batch 32768`),
  less than one turn (1.2 ms).
"""


@dataclass(frozen=True)
class Swept:
    """One split over reconfiguration times."""

    model: str
    strategy: Strategy
    memory: float
    """Bytes of the fullest rank."""
    all_planes: float
    """Seconds of the step if every group had all planes, which no switch allows."""
    at: dict[float, InStep]
    """By reconfiguration time, every collective priced for it."""
    curve: list[tuple[float, float]]
    """Share of the standing step that is saved, by reconfiguration time."""
    break_even: float
    """Seconds of a turn from which on circuits stand."""


def page(every: Sequence[Swept], placed: Sequence[Plan]) -> str:
    """Return the page."""
    return _INTRO + "\n".join([*_table(every), *_planes(every), *_ring(placed)]) + "\n\n" + _MODEL


def _table(every: Sequence[Swept]) -> Iterator[str]:
    yield "## Worth it up to a break-even\n"
    yield "A100s of `sip-ocs-1024`, 8 planes of 400 Gb/s. Cells: the step with circuits that stand → that follow it,"
    yield "what that saves, turns in a step. The break-even is the reconfiguration time from which on circuits stand.\n"
    times = list(every[0].at)
    heads = [format_time(seconds) for seconds in times]
    yield "| model, split, samples | if every group had all planes | " + " | ".join(heads) + " | break-even |"
    yield "| --- | ---: |" + " ---: |" * (len(times) + 1)
    for split in every:
        cells = [_cell(split.at[seconds]) for seconds in times]
        name = f"{split.model}, {label(split.strategy)}, {split.strategy.global_batch}"
        even = format_time(split.break_even)
        yield f"| {name} | {format_time(split.all_planes)} | {' | '.join(cells)} | **{even}** |"
    sizes = ", ".join(format_size(split.memory) for split in every)
    yield f"\nMemory of a rank: {sizes}. At 25 µs some collectives turn circuits between their own steps, also where"
    yield "the division stands (all-to-alls of Mixtral), so that following saves a little less than at 1 ms.\n"
    yield "![What following saves, falling with the reconfiguration time](pictures/reconfiguration.png)\n"
    yield "*Share of the standing step that circuits save which follow it. Dotted: 25 µs (micro-rings), 1 ms, 10 ms"
    yield "(SiP-ML's switch) and 45 ms. Collectives have the prices of 1 ms, at which their own circuits stand.*\n"


def _cell(in_step: InStep) -> str:
    standing = in_step.standing
    assert standing is not None and in_step.gain is not None
    if not in_step.best.turning:
        return f"{format_time(standing.step_time)}, stand"
    saved, turns = 100 * in_step.gain / standing.step_time, len(in_step.best.turning)
    return f"{format_time(standing.step_time)} → {format_time(in_step.best.step_time)}, −{saved:.3g} %, {turns} turns"


def _planes(every: Sequence[Swept]) -> Iterator[str]:
    yield "### Planes by phase\n"
    yield "| model, split | turn | planes | hidden of all turns |\n| --- | ---: | --- | ---: |"
    for split in every:
        name = f"{split.model}, {label(split.strategy)}"
        for seconds, in_step in split.at.items():
            if not in_step.best.turning:
                division = next(iter(in_step.best.settings.values()))
                yield f"| {name} | {format_time(seconds)} | {_named(division)} | |"
                break
            phases = "; ".join(f"{phase}: {_named(division)}" for phase, division in in_step.best.settings.items())
            total = len(in_step.best.turning) * in_step.reconfiguration_time
            hidden = f"{format_time(in_step.hidden)} of {format_time(total)}"
            yield f"| {name} | {format_time(seconds)} | {phases} | {hidden} |"
    yield ""


def _named(division: Planes) -> str:
    return ", ".join(f"{axis} {count}" for axis, count in division.items())


def _ring(placed: Sequence[Plan]) -> Iterator[str]:
    ranks, batch = placed[0].cluster.ranks, placed[0].global_batch
    yield "## SiP-Ring: placed plans granted circuits anew\n"
    yield f"    lightloom plan gpt2-355m --cluster sip-ring-1024 --ranks {ranks} --global-batch {batch} \\"
    yield "        --strategy placed --reconfigure-in-step\n"
    yield "On SiP-ML's ring (25 µs), placed plans have their wavelengths granted anew before every hold from what waits"
    yield "(section 3.3), in holds of 10 or 4 reconfiguration times, where that is faster than circuits granted once:\n"
    yield "| plan | granted once | granted anew | gain | holds of |\n| --- | ---: | ---: | ---: | ---: |"
    shown: dict[str, Plan] = {}
    for plan in placed:
        shown.setdefault(f"{plan.label} {plan.step_time:.4g}", plan)
    for plan in list(shown.values())[:_PLACED]:
        step = plan.regranted
        if step is None:
            yield f"| {plan.label} | {format_time(plan.step_time)} | no faster | | |"
        else:
            gain = f"{100 * step.gain / step.standing_time:.3g} %"
            once, anew = format_time(step.standing_time), format_time(step.step_time)
            yield f"| {plan.label} | {once} | {anew} | {gain} | {format_time(step.timing.hold)} |"
    yield "\n| SiP-ML's rescheduling | paper | ours | |\n| --- | ---: | ---: | --- |"
    best = max((plan.regranted.gain / plan.regranted.standing_time for plan in placed if plan.regranted), default=0.0)
    first = placed[0].regranted
    ours = "none" if first is None else f"{100 * first.gain / first.standing_time:.3g} %"
    yield f"| gain of the winner | not stated | {ours} | not reproducible |"
    yield f"| gain of the plan that gains most | not stated | {100 * best:.3g} % | not reproducible |"
    yield "| duty cycle of a hold of ten reconfigurations | 90 % | 90.9 % | match |"
    yield "\nThe sections of SiP-ML that are at hand (3.1 to 3.3) say that circuits are rescheduled within training and"
    yield "how, and state no step with and without, so that no number of theirs can stand beside ours. Ours deviates"
    yield "from their controller: counters are read at no cost; the first hold is planned from all that the step sends."
    yield "The bounds of these plans hold for any circuits, so that pruning stays right."


_PLACED = 10
"""Placed plans in the table."""


@styled
def reconfiguration_figure(every: Sequence[Swept]) -> Figure:
    """Draw what following saves against the reconfiguration time."""
    figure, axes = single_panel(8.6, 4.6)
    for split in every:
        times, saved = zip(*split.curve, strict=True)
        name = f"{split.model}, {label(split.strategy)}"
        axes.plot(times, [100 * share for share in saved], marker="o", markersize=3, label=name)
    for seconds in every[0].at:
        axes.axvline(seconds, linestyle=":", linewidth=0.8, color="0.5")
    axes.set_xscale("log")
    axes.set_xlabel("seconds to set a plane anew")
    axes.set_ylabel("% of the step saved")
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside upper left", fontsize=8, frameon=False)
    return figure
