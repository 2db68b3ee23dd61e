"""A program of someone else that uses every public name, for checkers of types in strict mode."""

import lightloom as ll
from lightloom.exchange import hooks
from lightloom.exchange.compression.codec import Codec
from lightloom.machines.fabrics.conformance import check_fabric
from lightloom.machines.fabrics.fabric import Fabric


def seconds_of_collectives() -> dict[str, float]:
    """Return times of schedules and of what none of them can beat."""
    ranking = ll.collective("all-gather", fabric="wdm-ring", ranks=16, nbytes_per_rank="1MB", wavelengths=2)
    fastest = ll.synthesize("all-gather", fabric="wdm-ring", ranks=8, nbytes="1MB")
    schedule: ll.Schedule = fastest.schedule
    collective: ll.Collective = fastest.collective
    fabric: ll.Fabric = ll.load_fabric("wdm-ring", 8)
    check_fabric(fabric)
    return {
        ranking.winner.algorithm: ranking.winner.time,
        "verified": ll.verify(schedule, fabric=fabric).time,
        "cost": ll.cost(schedule, fabric=fabric).time,
        "bound": ll.lower_bound(collective.kind, fabric="wdm-ring", ranks=8, nbytes="1MB").time,
    }


def documents_of_plans() -> list[object]:
    """Return documents of what is asked of a model and a cluster."""
    plans, more = ll.plan("resnet50", cluster="terarack-64"), ll.plan("resnet50", cluster="terarack-64", batch=64)
    cluster = ll.load_cluster("terarack-64")
    results = (
        plans,
        ll.compare(plans, more),
        ll.traffic(["resnet50@0-1", "resnet50@2-3"], "inceptionn-4"),
        ll.goodput("dgx-h100-64"),
        ll.bill(cluster),
        ll.averager(2, 4),
        ll.compare_reducers(2, 4),
        ll.compose("resnet50", ranks=16, bandwidth="100Gbps"),
        ll.design("resnet50", ranks=16),
        ll.accuracy("steps.csv"),
        ll.calibrate("steps.csv", accelerator="a100-80gb"),
    )
    return [result.to_json() for result in results]


class Link(Fabric):
    """A fabric of one's own."""

    @property
    def links(self) -> int:
        return self.ranks


def names(codec: Codec, algorithm: ll.Algorithm, accelerator: ll.Accelerator) -> tuple[str, ...]:
    """Return the names of parts that a plug-in registers."""
    return codec.name, algorithm.name, accelerator.name, ll.__version__, hooks.__name__


def first_operator() -> str:
    """Return the name of the first operator of a model, or what is wrong with its name."""
    try:
        return ll.trace("resnet50", batch=1).operators[0].name
    except ll.LightloomError as error:
        return str(error)
