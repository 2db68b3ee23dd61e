"""The page ``docs/planner/winners.md`` and its picture: which plan wins as links grow slower."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lightloom.core.units import format_time
from lightloom.reports.figures.canvas import hide_spines, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SAME = 1e-9
"""Share by which two steps may differ and tie."""
_LEAST = 1e-5
"""Percent that the picture shows at least."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")

_INTRODUCTION = """# Winners as links grow slower

Which way of training wins when a hop takes longer, and how much that costs:

    python -m benchmarks.winners --page docs/planner/winners.md

searches each pair of cluster and model with links of 0, 0.5, 1 and 5 µs a hop, everything else as the catalog states
it. The page and its picture are what the command wrote; `out/winners.json` keeps every ranking, and a run that was
stopped goes on where it was. Its searches took {cpu:.0f} CPU seconds ({machine}, beside other work).

![How much longer than without latency the winner's step takes; filled: another plan wins](../pictures/winners.png)

## What it shows

{findings}

Why: a hop's latency is paid once for each step of a collective that nothing hides. At 32 samples a rank, the batch that
a plan has unless another one is asked for, steps take 0.5 to 100 s on the GPUs and TPUs, and their exchanges are large
and run beside the arithmetic, so that microseconds vanish; small batches and small models feel them. Where exchanges go
around a ring of groups, as those of placed plans do, each of the 2 (l - 1) steps of l groups pays a hop, so that fewer
and larger groups win as hops grow slower. Nothing here says that latency does not matter in other settings: `lightloom
plan --explain` answers for yours.

## Every winner

`exchanges` are the algorithms of the winner's collectives, the largest first; placed plans have circuits or ports
instead. `next` is the best plan with another split that was simulated, and how much longer it takes; bounds decided the
others. `tokens` are tokens per second and accelerator.

"""

_ASSUMPTIONS = """
## Assumptions

* A hop is a link of the outer network. Links inside a node, a rack or a block of 4x4x4 chips keep the latency that the
  catalog states (25 ns, 25 ns, 1 µs); `terarack-64` and `sip-ocs-1024` have one kind of link. The catalog's own
  latencies are 5 ns a hop on `terarack-64`, 100 ns on `sip-ocs-1024` and 500 ns a link between nodes and racks.
* Searches by latency have ideal software and links that are ideal but for the catalog's wire efficiency: no library's
  protocols (`transport: ideal`, as closed forms of libraries do not know the latency of a link), no congestion by other
  jobs. Published set-ups exchange by NCCL, as plans on these clusters do.
* Mixture of experts: every expert gets as many tokens. A step's batch is the ranks times the largest power of two up to
  32 samples that some plan fits, without any latency or with it.
* `nvl72-576` computes with B200 boards (GB200's own clocks are not in the catalog), the optical clusters with A100, as
  the catalog assumes. TPUs have no kernel model there and compute at half of their roofline.
* Data parallelism is not ranked with each algorithm alone: every exchange takes the cheapest of the algorithms that
  have one schedule for all sizes. Searched are all of them on the optical clusters, `hierarchical` (along the axes of
  the torus) on `tpu-v4-1024`, `hierarchical` and `ring-two-way` on the GPUs, where placed operators are left out too:
  building all others for so many ranks four times takes minutes.
* Published set-ups ran in FP8, in which matrix products of layers and experts alone are computed. No recomputation was
  stated, and none is assumed. Their throughput is NVIDIA's own, of tuned recipes.
"""


def page(document: Mapping[str, Any]) -> str:
    """The page of one run."""
    rows = document["searches"]
    cpu = sum(row["cpu_s"] for row in rows)
    head = _INTRODUCTION.format(cpu=cpu, machine=document["cpu"], findings="\n".join(_findings(rows)))
    return head + "\n".join([*_tables(rows), *_published(document["published"])]) + "\n" + _ASSUMPTIONS


def _pairs(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, list[Mapping[str, Any]]]]:
    """Cluster, model and searches of each pair that was searched at all latencies, the smallest first."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["cluster"], row["model"]), []).append(row)
    for (cluster, model), searches in found.items():
        if len(searches) < max(map(len, found.values())):
            continue
        yield cluster, model, sorted(searches, key=lambda row: float(row["hop_latency_s"]))


def _findings(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    pairs = [*_pairs(rows)]
    kept = [f"{model} on `{cluster}`" for cluster, model, searches in pairs if _change(searches) is None]
    yield f"* {len(kept)} of {len(pairs)} winners stay at all latencies" + (f": {', '.join(kept)}." if kept else ".")
    for cluster, model, searches in pairs:
        change = _change(searches)
        if change is not None:
            at, slower = change
            lost = (
                "is no longer among the plans that are simulated"
                if slower is None
                else f"takes {slower:.4g} times as long"
            )
            yield (
                f"* {model} on `{cluster}`: the winner changes at {_hop(at)} a hop to {_name(at['plans'][0])}; "
                f"the first one then {lost}."
            )
    slowest = max(pairs, key=lambda pair: _slowdown(pair[2]))
    least = min(pairs, key=lambda pair: _slowdown(pair[2]))
    yield (
        f"* At the largest latency steps take between {_percent(_slowdown(least[2]))} ({least[1]} on `{least[0]}`) and "
        f"{_percent(_slowdown(slowest[2]))} ({slowest[1]} on `{slowest[0]}`) longer than without any."
    )


def _slowdown(searches: list[Mapping[str, Any]]) -> float:
    return float(_time(searches[-1]) / _time(searches[0]))


def _time(row: Mapping[str, Any]) -> float:
    return float(row["plans"][0]["step_s"])


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):.2g} %"


def _change(searches: list[Mapping[str, Any]]) -> tuple[Mapping[str, Any], float | None] | None:
    """The search of the smallest latency at which another plan wins, and how many times as long the first winner takes
    there, None where it was not simulated; None where the first one wins throughout."""
    first = _identity(searches[0]["plans"][0])
    for row in searches[1:]:
        times = [plan["step_s"] for plan in row["plans"] if _identity(plan) == first]
        slower = min(times) / _time(row) if times else None
        if slower is None or slower > 1 + _SAME:
            return row, slower
    return None


def _identity(plan: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    return plan["strategy"], plan["split"], tuple(plan["algorithms"][:1])


def _name(plan: Mapping[str, Any]) -> str:
    return f"{plan['split']}" + (f" · {' + '.join(plan['algorithms'])}" if plan["algorithms"] else "")


def _hop(row: Mapping[str, Any]) -> str:
    return format_time(row["hop_latency_s"]) if row["hop_latency_s"] else "0"


def _tables(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for cluster, model, searches in _pairs(rows):
        change = _change(searches)
        line = f"the winner stays the winner up to {_hop(searches[-1])} a hop"
        if change is not None:
            line = f"the winner changes at {_hop(change[0])} a hop"
        yield f"### {model} on `{cluster}`"
        yield ""
        yield f"{searches[0]['global_batch']:,} samples a step. Sensitivity: {line}."
        yield ""
        yield "| a hop | winner | exchanges | step | over none | tokens | next |"
        yield "| ---: | --- | --- | ---: | ---: | ---: | --- |"
        for row in searches:
            winner = row["plans"][0]
            tokens = row["tokens_per_second_per_rank"]
            yield (
                f"| {_hop(row)} | {winner['split']} | {' + '.join(winner['algorithms']) or '–'} | "
                f"{format_time(winner['step_s'])} | {_time(row) / _time(searches[0]):.4g} × | "
                f"{'–' if tokens is None else f'{tokens:,.0f}'} | {_next(row)} |"
            )
        yield ""


def _next(row: Mapping[str, Any]) -> str:
    winner = row["plans"][0]
    others = [plan for plan in row["plans"] if plan["split"] != winner["split"] and plan["fits"]]
    if not others:
        return "–"
    return f"{_name(others[0])}, {_percent(others[0]['step_s'] / winner['step_s'])} longer"


def _published(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield "## Beside published throughput"
    yield ""
    yield "Tokens per second and accelerator: as published, as `lightloom plan` prices the same set-up pinned, and the"
    yield "best plan that it finds for the same ranks and batch. Latencies are the catalog's."
    yield ""
    yield "| model | cluster | ranks | batch | published | same, bf16 | same, FP8 | best, bf16 | best, FP8 | source |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |"
    for row in rows:
        cells = [_tokens(row[f"pinned_{precision}"]) for precision in ("bf16", "fp8")]
        cells += [_tokens(row[f"best_{precision}"], named=True) for precision in ("bf16", "fp8")]
        yield (
            f"| {row['model']} | `{row['cluster']}` | {row['ranks']} | {row['global_batch']} | "
            f"{row['published']:,.0f} | {' | '.join(cells)} | {row['source']} |"
        )


def _tokens(plan: Mapping[str, Any] | None, *, named: bool = False) -> str:
    if plan is None:
        return "refused"
    text = f"{plan['tokens']:,.0f}" + (f", {plan['split']}" if named else "")
    return text if plan["fits"] else f"{text} (does not fit)"


@styled
def picture(document: Mapping[str, Any]) -> Figure:
    """How much longer the winners' steps take than without latency; filled where another plan wins."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for number, (cluster, model, searches) in enumerate(_pairs(document["searches"])):
        first, marker, colour = _identity(searches[0]["plans"][0]), _MARKERS[number % len(_MARKERS)], f"C{number}"
        slower = searches[1:]
        latencies = [row["hop_latency_s"] * 1e6 for row in slower]
        longer = [max(100 * (_time(row) / _time(searches[0]) - 1), _LEAST) for row in slower]
        axes.plot(latencies, longer, color=colour, linewidth=1.2, zorder=2)
        for seconds, percent, row in zip(latencies, longer, slower, strict=True):
            face = "white" if _identity(row["plans"][0]) == first else colour
            axes.plot(seconds, percent, marker, markersize=7, markerfacecolor=face, markeredgecolor=colour, zorder=3)
        label = f"{model}, {cluster}"
        axes.plot([], [], marker=marker, color=colour, markerfacecolor="white", markeredgecolor=colour, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([0.5, 1, 5], ["0.5 µs", "1 µs", "5 µs"])
    ticks = [1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10]
    axes.set_yticks(ticks, [f"{tick:g} %" if tick >= 1e-3 else f"{tick:.5f}".rstrip("0") + " %" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("latency of a hop")
    axes.set_ylabel("longer than without latency")
    hide_spines(axes)
    title = "open: the winner without latency\nfilled: another plan wins"
    figure.legend(loc="outside right upper", fontsize=7.5, title=title, title_fontsize=7.5)
    return figure
