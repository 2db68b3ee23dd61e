"""A test of any fabric against the contract of :mod:`lightloom.machines.fabrics.fabric`, for authors of fabrics.

    from lightloom.machines.fabrics.conformance import check_fabric
    check_fabric(MyFabric(ranks=16))

Costs grow with the square of the ranks, and with their cube where links are few: some tens of ranks show every fault.
"""

from collections.abc import Callable, Iterator

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.bills.links import bill_complaints
from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.fabric import Fabric

_CLOSE = 1e-9
"""Relative difference that rounding may cause."""
_DISTANCES = ("neighbour_latency", "diameter_latency", "diameter")
"""Figures that follow from footprints and latencies; channels that are blocked may make the diameter longer."""


def check_fabric(fabric: Fabric) -> None:
    """Test that a fabric keeps the promises of its contract, figures to a relative 1e-9; testing ends at the first that
    is broken.

    Of a single rank, which has no transfers, only the fields are tested; of a fabric of parts, what it says of itself,
    and the parts.

    Raises:
        ConfigError: a promise is broken; says which, and what was expected.
    """
    checks = _OF_PARTS if fabric.parts else _CHECKS
    for check in checks if fabric.ranks > 1 else (_check_fields,):
        for complaint in check(fabric):
            raise ConfigError(f"{fabric.kind_name}: {complaint}")


def _check_fields(fabric: Fabric) -> Iterator[str]:
    """Yield a complaint where the class has no field ``kind``, or else where a fabric validated anew from the fields is
    not equal."""
    if "kind" not in type(fabric).model_fields:
        yield 'field "kind" is missing: expected kind: Literal["my-kind"] = "my-kind"'
    elif type(fabric).model_validate({name: getattr(fabric, name) for name in type(fabric).model_fields}) != fabric:
        yield "its fields, read again, give another fabric"


def _check_links(fabric: Fabric) -> Iterator[str]:
    """Yield complaints where ``link_bandwidth`` has not one positive and finite value for each link (0 only on damaged
    fabrics), or links share a name."""
    bandwidth = np.asarray(fabric.link_bandwidth())
    if bandwidth.shape != (fabric.links,):
        yield f"link_bandwidth has shape {bandwidth.shape}: expected [links] = ({fabric.links},)"
    elif not np.isfinite(bandwidth).all() or (bandwidth < 0).any() or (not fabric.damaged and (bandwidth == 0).any()):
        yield "link_bandwidth is not positive and finite on every link"
    names = [fabric.link_name(link) for link in range(fabric.links)]
    if len(set(names)) != len(names):
        yield f"link_name gives {len(set(names))} names to {len(names)} links: expected one name for each"


def _all_transfers(fabric: Fabric) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield blocks of source, destination and route, each [transfer], of all transfers that the fabric carries: every
    pair of two ranks on every route, numbered from 0, or, where the network adds, every rank to and from the reducer on
    route 0."""
    if fabric.in_network_reduction:
        ranks = np.arange(fabric.ranks)
        switch = np.full_like(ranks, fabric.switch_rank)
        yield np.concatenate([ranks, switch]), np.concatenate([switch, ranks]), np.zeros(2 * fabric.ranks, np.int64)
        return
    for source, destination in derived.pairs(fabric.ranks):
        for route in range(fabric.routes):
            yield source, destination, np.full(len(source), route)


def _check_footprints(fabric: Fabric) -> Iterator[str]:
    """Yield complaints about footprints: other rows than transfers, links outside the fabric, transfers without a link
    or with one twice, other numbers of ``hops``, and, on packet fabrics that do not add, links of ``path`` that differ
    from the footprint's. Of a group, whose footprints hold the links of all sibling groups, only rows, links and
    emptiness are tested."""
    single = len(fabric.siblings()[1]) == 1
    for source, destination, route in _all_transfers(fabric):
        footprint = fabric.footprint(source, destination, route)
        if footprint.base.shape[0] != len(source):
            yield f"footprint has {footprint.base.shape[0]} rows for {len(source)} transfers"
        transfer, link = links_of(footprint)
        outside = (link < 0) | (link >= fabric.links)
        if outside.any():
            where = int(transfer[np.argmax(outside)])
            yield f"the footprint of {source[where]}→{destination[where]} holds a link outside 0..{fabric.links - 1}"
        count = np.bincount(transfer, minlength=len(source))
        used = np.bincount(np.unique(transfer * fabric.links + link) // fabric.links, minlength=len(source))
        for wrong, what in (
            (count == 0, "occupies no link"),
            ((used < count) & single, "occupies a link twice"),
            ((fabric.hops(source, destination, route) != count) & single, "has other hops than links in its footprint"),
        ):
            if wrong.any():
                row = int(np.argmax(wrong))
                yield f"the transfer {source[row]}→{destination[row]} on route {route[row]} {what}"
        if single and not (fabric.exclusive or fabric.in_network_reduction):
            path = np.asarray(fabric.path(source, destination, route))
            ours = np.sort(np.nonzero(path >= 0)[0] * fabric.links + path[path >= 0])
            if not np.array_equal(ours, np.sort(transfer * fabric.links + link)):
                yield "path has other links than footprint"


def _check_routes(fabric: Fabric) -> Iterator[str]:
    """Yield complaints where ``ring_order`` is no order of all ranks that begins with rank 0, ``route`` is out of
    range, or the reverse route of a transfer crosses another number of links; with a reducer only ``ring_order`` is
    tested."""
    order = np.asarray(fabric.ring_order()).tolist()
    if sorted(order) != list(range(fabric.ranks)):
        yield "ring_order is not an order of all ranks"
    elif order[0] != 0:
        yield f"ring_order begins at rank {order[0]}: expected rank 0, the root of chains"
    if fabric.in_network_reduction:
        return
    for source, destination in derived.pairs(fabric.ranks):
        route = np.asarray(fabric.route(source, destination))
        if route.min() < 0 or route.max() >= fabric.routes:
            yield f"route chooses a route outside 0..{fabric.routes - 1}"
        backward = fabric.reverse_route(route)
        forth, back = fabric.hops(source, destination, route), fabric.hops(destination, source, backward)
        if (forth != back).any():
            row = int(np.argmax(forth != back))
            yield f"reverse_route of {source[row]}→{destination[row]} crosses {back[row]} links, not {forth[row]}"


def _check_latencies(fabric: Fabric) -> Iterator[str]:
    """Yield complaints where a latency is negative or infinite or differs from that of the way back (not compared with
    a reducer), or where ``neighbour_latency``, ``diameter_latency``, ``diameter`` or ``root_latency`` differ from what
    footprints and latencies give; the diameter of a damaged fabric is not compared."""
    for source, destination, route in _all_transfers(fabric):
        forth = np.asarray(fabric.latency(source, destination, route))
        if not np.isfinite(forth).all() or (forth < 0).any():
            yield "latency is negative or infinite for some transfer"
        if not fabric.in_network_reduction:
            back = np.asarray(fabric.latency(destination, source, fabric.reverse_route(route)))
            if not np.allclose(forth, back, rtol=_CLOSE, atol=0):
                row = int(np.argmax(np.abs(forth - back)))
                yield f"latency of {source[row]}→{destination[row]} is {forth[row]} s, of the way back {back[row]} s"
    names = ("neighbour_latency", "diameter_latency") if fabric.damaged else _DISTANCES
    figures = [(name, getattr(fabric, name)(), getattr(derived, name)(fabric)) for name in names]
    for to_root in (False, True):
        own, expected = fabric.root_latency(to_root=to_root), derived.root_latency(fabric, to_root=to_root)
        figures.append((f"root_latency(to_root={to_root})", own, expected))
    for name, own, expected in figures:
        if not np.isclose(own, expected, rtol=_CLOSE, atol=0):
            yield f"{name} is {own}: footprints and latency give {expected}"


def _check_channels(fabric: Fabric) -> Iterator[str]:
    """Yield complaints where a packet fabric has channels, wavelengths or switch planes, or where a circuit-switched
    one (``exclusive``) is not exactly one of ``wavelength_routed`` and ``switch_planes``, has no whole number of fibres
    or more usable channels than channels, or links of another bandwidth than channels times ``channel_bandwidth`` (on a
    damaged fabric that product need only be above 0)."""
    if not fabric.exclusive:
        if fabric.channels or fabric.wavelength_routed or fabric.switch_planes:
            yield "only circuits (exclusive) have channels, wavelengths or switch planes"
        return
    if fabric.wavelength_routed == fabric.switch_planes:
        yield "circuits are either wavelengths around a ring (wavelength_routed) or switch planes (switch_planes)"
    if fabric.channels < 1 or fabric.channels % fabric.fibre_channels or fabric.usable_channels > fabric.channels:
        yield (
            f"channels {fabric.channels}, fibre_channels {fabric.fibre_channels} and usable_channels "
            f"{fabric.usable_channels} do not agree: expected whole fibres, and no more usable channels than channels"
        )
    capacity = fabric.channels * fabric.channel_bandwidth
    if capacity <= 0 or (not fabric.damaged and not np.allclose(fabric.link_bandwidth(), capacity, rtol=_CLOSE)):
        yield f"link_bandwidth differs from channels · channel_bandwidth = {capacity} bytes per second"


def _check_capabilities(fabric: Fabric) -> Iterator[str]:
    """Yield complaints where capabilities contradict each other: a ring of wavelengths has not 2 routes, ``grid`` not
    as many places as there are ranks, ``blocked`` is not an array exactly where the fabric is ``damaged``, or
    ``joins_ranks`` holds though some rank has no transfer of a single link to it or from it."""
    if fabric.wavelength_routed and fabric.routes != 2:
        yield f"a ring of wavelengths (wavelength_routed) has 2 routes, not {fabric.routes}"
    if fabric.grid is not None and fabric.grid.rows * fabric.grid.columns != fabric.ranks:
        yield f"grid {fabric.grid} does not hold {fabric.ranks} ranks"
    if fabric.damaged != (fabric.blocked() is not None):
        yield "damaged and blocked do not agree: expected an array exactly where something has failed"
    if fabric.joins_ranks:
        single = np.zeros((2, fabric.ranks), np.bool_)
        for source, destination, route in _all_transfers(fabric):
            near = fabric.hops(source, destination, route) == 1
            single[0, source[near]] = single[1, destination[near]] = True
        if not single.all():
            yield "joins_ranks, but some rank has no transfer of a single link to it or from it"


def _check_bandwidths(fabric: Fabric) -> Iterator[str]:
    """Yield complaints where no cut is around a single rank, a cut or ``total_receive_bandwidth`` is not positive, or a
    cut holds no or all ranks; where the tightest cut around a single rank carries more than the links of the rank that
    can exchange least, or all ranks receive more than their links carry; and where a cut or the total allows less than
    an all-to-all over the footprints moves. With reducers, damage or parts only the first group is tested."""
    cuts, total = fabric.cuts(), fabric.total_receive_bandwidth()
    if not any(cut.ranks == 1 for cut in cuts):
        yield "cuts lacks the cut of a single rank"
    if any(cut.capacity <= 0 or not 0 < cut.ranks < fabric.ranks for cut in cuts) or total <= 0:
        yield "a cut, or what all ranks can receive, is not positive, or a cut does not divide the ranks"
    if fabric.in_network_reduction or fabric.damaged or fabric.parts:
        return
    receive, send = derived.rank_bandwidths(fabric)
    most, own = float(np.maximum(receive, send).min()), min(cut.capacity for cut in cuts if cut.ranks == 1)
    if own > most * (1 + _CLOSE):
        yield f"the cut of a single rank carries {own} bytes per second: its links carry {most}"
    if total > receive.sum() * (1 + _CLOSE):
        yield f"all ranks together receive {total} bytes per second: their links carry {receive.sum()}"
    seconds = _exchange_seconds(fabric)
    for cut in cuts:
        least = cut.ranks * (fabric.ranks - cut.ranks) / seconds
        if cut.capacity < least * (1 - _CLOSE):
            yield f"{cut.name} carry {cut.capacity} bytes per second, yet an all-to-all brings {least} across"
    if total < fabric.ranks * (fabric.ranks - 1) / seconds * (1 - _CLOSE):
        yield f"all ranks together receive {total} bytes per second, yet less than an all-to-all brings them"


def _exchange_seconds(fabric: Fabric) -> float:
    """Return the seconds in which every rank sends a byte straight to every other on the fabric's own routes, in all
    groups at once where the fabric is a group of another, propagation left out: those of the busiest link, or of a
    rank's transmitters, of ``channel_bandwidth`` each, where these take longer."""
    whole, members = fabric.siblings()
    load = np.zeros(whole.links)
    for source, destination in derived.pairs(fabric.ranks):
        load += derived.link_loads(whole, members[:, source].ravel(), members[:, destination].ravel())
    seconds = float((load / whole.link_bandwidth()).max())
    if fabric.transmitters is None:
        return seconds
    return max(seconds, (fabric.ranks - 1) / (fabric.transmitters * fabric.channel_bandwidth))


def _check_groups(fabric: Fabric) -> Iterator[str]:
    """Yield complaints where ``pair`` at some stride, or the fabric of some ``group`` that tiles the ranks, gives other
    rates and latencies of shifts than footprints and ``latency``, or, where distance does not matter, groups of one
    size differ by stride; none where groups rest on a stated assumption or the network adds."""
    if fabric.group_assumption or fabric.in_network_reduction:
        return
    for stride in range(1, fabric.ranks + 1):
        pair, derivation = fabric.pair(stride), derived.simultaneous(fabric, stride)
        if not np.allclose(pair, derivation, rtol=_CLOSE, atol=0):
            yield f"pair({stride}) is {pair}: footprints and latency give {derivation}"
    for ranks in _group_sizes(fabric):
        alike: Floats | None = None
        for stride in (s for s in range(1, fabric.ranks // ranks + 1) if fabric.ranks % (ranks * s) == 0):
            part, members = fabric.group(ranks, stride), derived.group_members(fabric.ranks, ranks, stride)
            where = f"group({ranks}, {stride})"
            if part is None or part.ranks != ranks:
                yield f"{where} is not a fabric of {ranks} ranks"
                return
            expected = _shift_seconds(fabric, members)
            for name, seconds in (("gives", _shift_seconds(part, np.arange(ranks)[None])), ("first gave", alike)):
                if seconds is not None and not np.allclose(seconds, expected, rtol=_CLOSE, atol=0):
                    yield (
                        f"{where}: exchanges between ranks 1, 2, ... apart take {expected[0]} s of a gigabyte and "
                        f"{expected[1]} s of latency, but {name} {seconds[0]} and {seconds[1]}"
                    )
            alike = None if fabric.distance_matters else expected


def _group_sizes(fabric: Fabric) -> list[int]:
    """Return the divisors of the number of ranks between 1 and it, both left out, ascending: sizes of groups that tile
    the fabric."""
    return [size for size in range(2, fabric.ranks) if fabric.ranks % size == 0]


def _shift_seconds(fabric: Fabric, members: Ints) -> Floats:
    """Return, for each shift 1, 2, ... below the size of groups, the seconds of a gigabyte over the busiest link (first
    row) and of the longest latency (second row) when every rank sends to the one so much further on in its group, in
    all groups at once: [2, shift].

    ``members`` are ranks of the fabric, [group, rank]; the last rank is followed by the first.
    """
    whole, inner = fabric.siblings()
    seconds, ranks = np.zeros((2, members.shape[1] - 1)), np.arange(members.shape[1])
    for shift in range(1, members.shape[1]):
        source, destination = (inner[:, members[:, (ranks + by) % len(ranks)].ravel()].ravel() for by in (0, shift))
        seconds[0, shift - 1] = 1e9 * (derived.link_loads(whole, source, destination) / whole.link_bandwidth()).max()
        seconds[1, shift - 1] = whole.latency(source, destination, whole.route(source, destination)).max()
    return seconds


def _check_parts(fabric: Fabric) -> Iterator[str]:
    """Yield complaints where the groups of neighbours, and of the ranks in one place of all these groups, are not the
    two ``parts`` themselves, or latencies of the parts lie outside ``neighbour_latency`` to ``diameter_latency`` of the
    fabric. The fabric must have two parts. ConfigError, raised once these are yielded, where a part breaks its own
    contract."""
    inside, between = fabric.parts
    if fabric.group(inside.ranks) is not inside or fabric.group(between.ranks, inside.ranks) is not between:
        yield "the groups of neighbours and of counterparts are not its parts"
    least, most = fabric.neighbour_latency(), fabric.diameter_latency()
    if not all(least <= part.neighbour_latency() and part.diameter_latency() <= most for part in fabric.parts):
        yield f"latencies of its parts lie outside neighbour_latency {least} and diameter_latency {most}"
    for part in fabric.parts:
        check_fabric(part)


def _check_ports(fabric: Fabric) -> Iterator[str]:
    """Yield complaints where ``Fabric.ports``, the port of source and destination and the rate of every transfer,
    differs from :func:`.derived.ports`, what the links give that ranks have to themselves: other rates, None on one
    side only, or transfers of a rank that share a port on one side and not on the other. Circuits, reducers and ranks
    that forward are passed over."""
    if fabric.exclusive or fabric.in_network_reduction or fabric.joins_ranks:
        return
    for source, destination in derived.pairs(fabric.ranks):
        own, expected = fabric.ports(source, destination), derived.ports(fabric, source, destination)
        if own is None or expected is None:
            if own is not expected:
                yield "ports differ from the links that ranks have to themselves"
            return
        if not np.allclose(own.rate, expected.rate, rtol=_CLOSE, atol=0):
            row = int(np.argmax(np.abs(own.rate - expected.rate)))
            yield (
                f"ports give {source[row]}→{destination[row]} {own.rate[row]} bytes per second: its links give "
                f"{expected.rate[row]}"
            )
        for rank, ours, theirs in (source, own.port, expected.port), (destination, own.entry, expected.entry):
            columns = [np.unique([rank, port], axis=1, return_inverse=True)[1].ravel() for port in (ours, theirs)]
            if len(np.unique(np.stack(columns), axis=1)[0]) != min(len(np.unique(column)) for column in columns):
                yield "ports differ from the links that ranks have to themselves"


def _packets(fabric: Fabric) -> Iterator[str]:
    """Yield complaints where ``wire_bytes`` is less than the data (tried with 1 MB), or ``with_smaller_packets``
    changes the number of ranks (tried with a ratio of 2)."""
    if fabric.wire_bytes(1e6) < 1e6:
        yield "wire_bytes is less than the data"
    if fabric.with_smaller_packets(2.0).ranks != fabric.ranks:
        yield "with_smaller_packets is a fabric of other ranks"


def _bills(fabric: Fabric) -> Iterator[str]:
    """Yield complaints about the bill of the fabric and of its groups, one of each size with its members as far apart
    as they can be: broken promises of bills, and groups on the fabric's links whose rank has other parts. Groups of
    circuits, of reducers or under an assumption are passed over."""
    yield from bill_complaints(fabric.bill(), fabric.ranks)
    if fabric.group_assumption or fabric.in_network_reduction or fabric.exclusive:
        return
    for ranks in _group_sizes(fabric):
        part, where = fabric.group(ranks, fabric.ranks // ranks), f"group({ranks}, {fabric.ranks // ranks})"
        if part is not None:
            yield from (f"{where}: {text}" for text in bill_complaints(part.bill(), ranks))
            # A group that shares the fabric's links has the fabric's parts for every rank.
            if part.siblings()[0] is fabric and part.bill().lines != fabric.bill().lines:
                yield f"{where} has another bill for a rank than the fabric"


_CHECKS: tuple[Callable[[Fabric], Iterator[str]], ...] = (
    _check_fields,
    _check_links,
    _check_footprints,
    _check_channels,
    _check_capabilities,
    _check_routes,
    _check_latencies,
    _check_bandwidths,
    _check_groups,
    _check_ports,
    _packets,
    _bills,
)
_OF_PARTS = (_check_fields, _check_links, _check_capabilities, _check_bandwidths, _check_parts, _packets, _bills)
"""Checks of a fabric of parts, on which no transfer crosses both."""
