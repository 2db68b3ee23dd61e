"""A job whose rank 0 is attacked in all ways at once while it waits for the last rank."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch.distributed import PrefixStore, group  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import _get_process_group_store

from lightloom.exchange.hooks import attach_inceptionn
from lightloom.exchange.transport.worker import Worker
from tests.training.hooks import workers
from tests.training.transport.attacks import ATTACKS, run_attack, silence, target_of

SILENT = 10


def everything(worker: Worker) -> dict[str, Any]:
    """Digest of the weights after some steps; the last rank also tells what its attackers heard."""
    assert group.WORLD is not None
    store, last = _get_process_group_store(group.WORLD), worker.size - 1
    attackers = [attack for attack in ATTACKS for _ in range(SILENT if attack is silence else 2)]
    model = workers.wrapped()
    with ThreadPoolExecutor(len(attackers)) as pool:
        heard = []
        if worker.rank == last:
            # The part of the store that the next connections of all ranks will use.
            key = "lightloom/exchange"
            own = PrefixStore(f"{key}/group/{store.add(f'{key}/{last}', 0) + 1}", store)
            target = target_of(own, "lightloom/exchange/meeting 1", caller=last, size=worker.size)
            heard = [pool.submit(run_attack, attack, target, k) for k, attack in enumerate(attackers)]
        state = attach_inceptionn(model, adaptive=False)
        workers.train(model, workers.sgd(model), worker.rank, range(3))
        state.close()
        return {"digest": workers.digest(model), "heard": [future.result() for future in heard]}
