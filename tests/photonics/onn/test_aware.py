"""The comparison of training with and without errors of devices: equal starts, equal budgets, a record that resumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from lightloom.core.errors import ConfigError, UnknownNameError  # noqa: E402
from lightloom.papers.optinc import rows  # noqa: E402
from lightloom.photonics.onn import aware  # noqa: E402
from lightloom.photonics.onn.recipe import TrainingRecipe  # noqa: E402
from lightloom.photonics.onn.training import Trained, train  # noqa: E402


def test_the_arms_differ_in_their_devices_alone() -> None:
    for seed in aware.SEEDS:
        unaware, knowing = (aware.recipe(arm, seed) for arm in aware.ARMS)
        assert unaware.cpu_seconds == knowing.cpu_seconds == aware.BUDGET
        assert knowing.devices is not None and knowing.but(devices=None) == unaware


def test_there_is_no_other_arm() -> None:
    with pytest.raises(UnknownNameError, match="unknown arm 'awre'"):
        aware.recipe("awre", 0)


@pytest.mark.long
def test_a_record_is_written_after_every_training_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aware, "SERVERS", 2)
    monkeypatch.setattr(aware, "SEEDS", (0,))
    monkeypatch.setattr(aware, "FABRICATIONS", 2)
    path = tmp_path / "aware.json"
    trained: list[TrainingRecipe] = []

    def counted(recipe: TrainingRecipe) -> Trained:
        trained.append(recipe)
        return train(recipe)

    monkeypatch.setattr(aware, "train", counted)
    aware.write(path, budget=0.05)
    aware.write(path, budget=0.05)
    document = json.loads(path.read_text())
    assert len(trained) == 2 and [row["arm"] for row in document["trainings"]] == list(aware.ARMS)
    assert document["verdict"]["seeds"] == 1
    assert all(
        len(row["history"]) <= aware.ENTRIES and row["wrong"].keys() == aware.JUDGED.keys()
        for row in document["trainings"]
    )
    assert rows._aware(document).unit == "seeds of 5"
    with pytest.raises(ConfigError, match="another budget"):
        aware.write(path, budget=1.0)
    path.write_text("{}")
    with pytest.raises(ConfigError, match="is not a comparison"):
        aware.write(path)


def test_the_kept_record_holds_what_it_says() -> None:
    document = json.loads((Path(aware.__file__).parent / "trained" / "aware.json").read_text())
    wrong = {(row["arm"], row["seed"]): row["wrong"]["phase 3e-3"] for row in document["trainings"]}
    assert set(wrong) == {(arm, seed) for arm in aware.ARMS for seed in aware.SEEDS}
    fewer = sum(wrong["aware", seed] < wrong["unaware", seed] for seed in aware.SEEDS)
    assert document["verdict"] == {"at": "phase 3e-3", "seeds": 5, "fewer_wrong_with_awareness": fewer}
    assert document["recipes"] == {arm: aware.recipe(arm, 0).to_json() for arm in aware.ARMS}
    assert all(abs(row["cpu_seconds"] - document["budget_cpu_seconds"]) < 1 for row in document["trainings"])
