"""Workers and aggregators: the sum in its stated order, weights as they are, gradients within their bound."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np
import pytest

pytest.importorskip("torch", reason="aggregators use torch's optimizers")

import torch
from benchmarks.support.socket_ring import Traffic
from benchmarks.support.worker_aggregator import (
    Node,
    RootTrainer,
    Tree,
    WorkerTrainer,
    add_up,
    flat,
    flat_gradients,
    node_from_store,
    pull,
    push,
    relay,
    send_weights,
    set_gradients,
    trainable,
)
from torch import nn

from lightloom.core.arrays import Float32s
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.transport.channel import MARKED_TOS, TransportError, payload_limit
from tests.training.transport.exchange_workers import backward_of, small_net
from tests.training.transport.rings import PATIENCE, LocalStore, results
from tests.training.transport.test_ring_all_reduce import gradients

T = TypeVar("T")
BOUND = 2.0**-10
STEPS = 6
TREES = {"star": Tree.star(4), "tree": Tree.of_groups((3, 2)), "deep": Tree((1, 2, 5, 2, 5, None))}


def in_tree(tree: Tree, job: Callable[[Node], T], *, timeout: float = PATIENCE) -> list[T | Exception]:
    """What ``job(node)`` returns or raises on every rank."""
    store = LocalStore()

    def run(rank: int) -> T:
        with node_from_store(store, tree, rank, timeout=timeout, setup_timeout=PATIENCE) as node:
            return job(node)

    with ThreadPoolExecutor(len(tree.parents)) as pool:
        futures = [pool.submit(run, rank) for rank in range(len(tree.parents))]
        wait(futures)
    return [future.exception() or future.result() for future in futures]  # type: ignore[misc]


def tree_sum(tree: Tree, values: list[Float32s], rank: int) -> Float32s:
    """What ``rank`` sends up: its own values, or the sum of its children's in order."""
    if rank in tree.workers:
        return values[tree.workers.index(rank)]
    total = np.zeros_like(values[0])
    for child in tree.children(rank):
        total += tree_sum(tree, values, child)
    return total


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(
    tree: Tree, codec: Inceptionn | None, *, feedback: bool = False
) -> list[tuple[bytes, Float32s | None, Traffic]]:
    """Final weights, residual and last traffic of every worker."""
    size = flat(small_net().parameters()).size

    def job(node: Node) -> Any:
        if node.parent is None:
            model = small_net()
            root = RootTrainer(node, model, sgd(model), codec)
            return [root.step() for _ in range(STEPS)]
        if node.children:
            return relay(node, size, STEPS, codec, error_feedback=feedback)
        model = small_net(seed=node.name + 1)  # begins with other weights than the root's
        trainer = WorkerTrainer(node, model, codec, error_feedback=feedback)
        for step in range(STEPS):
            backward_of(model, node.name, step)
            traffic = trainer.step()
        return flat(model.parameters()).tobytes(), trainer.residual, traffic

    outcomes = results(in_tree(tree, job))
    assert len(outcomes[tree.root]) == STEPS
    return [outcomes[rank] for rank in tree.workers]


@pytest.mark.parametrize("name", TREES)
def test_training_is_that_of_one_process_with_the_averaged_gradient(name: str) -> None:
    tree, model = TREES[name], small_net()
    optimizer = sgd(model)
    for step in range(STEPS):
        values = []
        for rank in tree.workers:
            backward_of(model, rank, step)
            values.append(flat_gradients(trainable(model)))
        mean = tree_sum(tree, values, tree.root) / np.float32(len(tree.workers))
        set_gradients(trainable(model), mean)
        optimizer.step()
    expected = flat(model.parameters()).tobytes()
    assert [weights for weights, _, _ in train(tree, None)] == [expected] * len(tree.workers)


@pytest.mark.parametrize("name", TREES)
def test_compressed_replicas_agree_and_weights_are_never_touched(name: str) -> None:
    workers = train(TREES[name], Inceptionn(bound=BOUND), feedback=True)
    assert len({weights for weights, _, _ in workers}) == 1
    weights = np.frombuffer(workers[0][0], np.float32)
    assert np.any(Inceptionn(bound=BOUND).round_trip(weights) != weights)
    for _, residual, traffic in workers:
        assert residual is not None and 0 < np.abs(residual).max() < BOUND
        assert traffic.nbytes_sent < traffic.nbytes_raw / 2


@pytest.mark.parametrize("name", TREES)
def test_the_sum_is_within_the_bound_of_each_encoding_and_residuals_hold_the_rest(name: str) -> None:
    tree, length, steps = TREES[name], 4099, 20
    codec = Inceptionn(bound=BOUND)

    def job(node: Node) -> Float32s:
        given = gradients(len(tree.parents), length)[node.name]
        residual, sums = np.zeros(length, np.float32), np.zeros(length, np.float32)
        for _ in range(steps):
            if node.children:
                given = add_up(node, node.from_below(payload_limit(length), marked=True), length, codec)
            sums += given
            if node.parent is None:
                send_weights(node, given)
            else:
                push(node, given + residual, codec, residual)
                given = pull(node, length) if node.children else given
                if not node.children:
                    assert pull(node, length).size == length
        return sums if node.parent is None else residual

    outcomes = results(in_tree(tree, job))
    values = gradients(len(tree.parents), length)
    given = np.sum([values[rank] for rank in tree.workers], axis=0, dtype=np.float64) * steps
    received = outcomes.pop(tree.root)
    encodings = len(tree.parents) - 1
    assert np.abs(received - given).max() <= encodings * BOUND * (1 + 1e-3), "feedback: once, not once a step"
    missing = np.sum(outcomes, axis=0, dtype=np.float64)
    np.testing.assert_allclose(received + missing, given, rtol=0, atol=1e-4)


def test_only_gradients_are_marked() -> None:
    def job(node: Node) -> list[int]:
        values = np.ones(1000, np.float32)
        for _ in range(2):
            if node.parent is None:
                add_up(node, node.from_below(payload_limit(1000), marked=True), 1000, Inceptionn(bound=BOUND))
                send_weights(node, values)
            else:
                push(node, values, Inceptionn(bound=BOUND))
                pull(node, 1000)
        return [sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) for sock in node._sockets]

    *workers, root = results(in_tree(Tree.star(2), job))
    assert workers == [[0, MARKED_TOS]] * 2
    assert not any(root)


@pytest.mark.parametrize("victim", [0, 5, 7], ids=["worker", "aggregator", "root"])
def test_a_death_anywhere_is_told_everywhere(victim: int) -> None:
    def job(node: Node) -> str:
        try:
            for step in range(100):
                if node.name == victim and step == 3:
                    for sock in node._sockets:  # without a word
                        sock.shutdown(socket.SHUT_RDWR)
                    return ""
                values = np.ones(1000, np.float32)
                with node.breaking_off():
                    if node.children:
                        values = add_up(node, node.from_below(payload_limit(1000), marked=False), 1000)
                    if node.parent is None:
                        send_weights(node, values)
                    else:
                        push(node, values)
                        pull(node, 1000)
        except TransportError as error:
            return str(error)
        return "nobody noticed"

    said = results(in_tree(Tree.of_groups((3, 2)), job))
    for rank, words in enumerate(said):
        expected = words.startswith(f"rank {rank}: rank ") and f"rank {victim} closed its connection" in words
        assert expected or (rank == victim and not words), said


def test_what_cannot_be_is_refused() -> None:
    assert Tree.star(4).children(4) == (0, 1, 2, 3) == Tree.star(4).workers
    assert Tree.of_groups((3, 2)).children(7) == (5, 6)
    for parents in ((), (None,), (None, None), (1, 0, None), (0, None), (7, None)):
        with pytest.raises(ConfigError, match="parents"):
            Tree(parents)
    with pytest.raises(UnsupportedError, match=r"float64 on cpu: expected float32"):
        trainable(nn.Linear(2, 2).double())


@pytest.mark.slow
def test_eight_processes() -> None:
    """Five workers, two aggregators and a root; then the first aggregator is killed in the middle of training."""
    from lightloom.exchange.transport.launch import launch
    from tests.training.transport import exchange_workers

    victim = 5
    outcomes = launch(exchange_workers.tree_of_aggregators, 8, 240, {"victim": victim}, check=False)
    assert [outcome.rank for outcome in outcomes if outcome.value is None] == [victim], outcomes
    assert outcomes[victim].error == f"no result, exit code {-signal.SIGKILL}"
    values = [outcome.value for outcome in outcomes if outcome.value is not None]
    assert len({value["digest"] for value in values if value["digest"]}) == 1
    assert all(value["death"].startswith("TransportError: rank ") for value in values)
    assert any(f"rank {victim} closed its connection" in value["death"] for value in values)
