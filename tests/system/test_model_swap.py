"""Another model for an agent at work, by a client: pushed, checked, switched to, watched, kept or taken back."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.client import Client, Refused, Unknown
from daemon.remote import (
    PART_BYTES,
    Activate,
    ChangeAgent,
    FinishModel,
    ListModels,
    Models,
    Outcomes,
    PushModel,
    RemoveModel,
    Rollback,
)
from tests.gateway_daemon import Running, running
from tests.packages import pin_hashes, tiny_package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TRIAL_S = 0.6
ROUNDS = int(os.environ.get("SWAPS", "10"))
DEADMAN_NS = 250_000_000


@pytest.fixture
def daemon(run_folder: Path) -> Iterator[Running]:
    with running(run_folder, tiny_package(run_folder / "good"), infer=f"trial_s = {TRIAL_S}") as found:
        yield found


def push(client: Client, name: str, package: Path) -> str:
    """Push a package as a client does; return what the gateway says of it in the end."""
    for file in ("manifest.json", "model.pte", "goldens.bin"):
        data = (package / file).read_bytes()
        for at in range(0, len(data), PART_BYTES):
            part = data[at : at + PART_BYTES]
            client.ask(PushModel(package=name, file=file, offset=at, data=part))
    return client.ask(FinishModel(package=name)).detail


def state(client: Client) -> str:
    """Of the agent, for people."""
    result = client.ask(ChangeAgent(agent="good", change="status")).result
    assert isinstance(result, Outcomes)
    return result.outcomes[0].state


def wait_for(client: Client, *words: str) -> str:
    """Until the agent's state has all of them."""
    until = time.monotonic() + 30
    while True:
        try:
            said = state(client)
        except (Refused, Unknown):  # infer is on its way back
            said = ""
        if all(word in said for word in words):
            return said
        assert time.monotonic() < until, f"{words} not in {said!r}"
        time.sleep(0.05)


def timeline(daemon: Running) -> list[dict[str, int | str]]:
    return [json.loads(line) for line in (daemon.folder / "state/arm.jsonl").read_text().splitlines()]


def test_a_pushed_model_acts_stays_over_a_restart_and_can_be_gone_back_from(daemon: Running) -> None:
    with Client(daemon.address) as client:
        wait_for(client, "good ready")
        assert "can be activated" in push(client, "other", tiny_package(daemon.folder / "source", burn=1))
        client.ask(Activate(agent="good", package="other"))
        wait_for(client, "model other", "other kept")
        os.kill(daemon.pid("infer"), signal.SIGKILL)
        wait_for(client, "good ready", "model other")
        with pytest.raises(Refused, match="other is in use"):
            client.ask(RemoveModel(package="other"))
        with pytest.raises(Refused, match="acts by the model it was started with"):
            client.ask(Rollback(agent="good"))
        client.ask(Activate(agent="good"))
        wait_for(client, "model good", "good kept")
        client.ask(Rollback(agent="good"))
        wait_for(client, "model other", "other kept")
        client.ask(Activate(agent="good"))
        wait_for(client, "good kept")
        client.ask(RemoveModel(package="other"))
        listed = client.ask(ListModels()).result
        assert listed == Models(models=[])


def test_good_models_replace_one_another_at_work_and_bad_ones_change_nothing(daemon: Running) -> None:
    models = daemon.folder / "models"
    tiny_package(models / "one", burn=1)
    tiny_package(models / "two", burn=2)
    tiny_package(models / "nan", nan_when_bright=True)
    shutil.copytree(models / "one", models / "torn")
    with (models / "torn/model.pte").open("r+b") as file:
        file.truncate(4096)
    pin_hashes(models / "torn")
    with Client(daemon.address) as client:
        wait_for(client, "good ready")
        time.sleep(1.0)
        acting_by = "good"
        begun_ns = time.monotonic_ns()
        for number in range(ROUNDS):
            if number % 5 == 2:
                client.ask(Activate(agent="good", package="nan"))
                wait_for(client, f"model {acting_by}", "nan taken back", "nonfinite")
            elif number % 5 == 4:
                client.ask(Activate(agent="good", package="torn"))
                wait_for(client, f"model {acting_by}", "torn refused")
            else:
                acting_by = "two" if acting_by == "one" else "one"
                client.ask(Activate(agent="good", package=acting_by))
                wait_for(client, f"model {acting_by}", f"{acting_by} kept")
        ended_ns = time.monotonic_ns()
    entries = [entry for entry in timeline(daemon) if begun_ns < int(entry["t_ns"]) < ended_ns]
    times = [int(entry["t_ns"]) for entry in entries]
    longest_ms = max(after - before for before, after in itertools.pairwise(times)) / 1e6
    neutral = [entry for entry in entries if entry["cause"] == "deadman"]
    print(f"{ROUNDS} changes: {len(entries)} writes, {len(neutral)} by the dead-man, longest pause {longest_ms:.0f} ms")
    assert longest_ms * 1e6 < 2 * DEADMAN_NS, "the valve writes neutral after the dead-man time, whatever infer does"
    assert len(neutral) <= ROUNDS // 5, "a change of models is no reason to stop"


def test_what_cannot_work_is_refused_before_anything_is_done(daemon: Running) -> None:
    models = daemon.folder / "models"
    tiny_package(models / "tall", height=32)
    with Client(daemon.address) as client:
        wait_for(client, "good ready")
        for package, words in (("tall", "name it in the configuration"), ("absent", "expected a package manifest")):
            with pytest.raises(Refused, match=words):
                client.ask(Activate(agent="good", package=package))
        with pytest.raises(Refused, match="no agent 'nobody'; agents: good"):
            client.ask(Activate(agent="nobody"))
        assert "model good" in state(client)


def test_what_is_pushed_is_there_whole_or_not_at_all(daemon: Running) -> None:
    source = tiny_package(daemon.folder / "source")
    with Client(daemon.address) as client:
        damaged = bytearray((source / "model.pte").read_bytes())
        damaged[len(damaged) // 2] ^= 1
        (source / "model.pte").write_bytes(damaged)
        with pytest.raises(Refused, match="sha256"):
            push(client, "new", source)
        assert client.ask(ListModels()).result == Models(models=[])
        with pytest.raises(Refused, match="expected a package manifest"):
            client.ask(Activate(agent="good", package="new"))
        with pytest.raises(Refused, match="send what is between first"):
            client.ask(PushModel(package="new", file="goldens.bin", offset=10**6, data=b"x"))
        damaged[len(damaged) // 2] ^= 1
        (source / "model.pte").write_bytes(damaged)
        push(client, "new", source)
        with pytest.raises(Refused, match="does not change"):
            push(client, "new", source)
        listed = client.ask(ListModels()).result
        assert isinstance(listed, Models)
        assert [(model.package, model.detail) for model in listed.models] == [("new", "")]
