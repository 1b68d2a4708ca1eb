# SPDX-License-Identifier: GPL-2.0-or-later
"""Congestion controls that are Python classes."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import longhaul
import pytest
from conftest import scenario_of
from longhaul import Ack, CongestionControl, Decision
from longhaul.control import digest


class Mine(CongestionControl):
    """Reno, as cc/reno.h has it."""

    def __init__(self) -> None:
        self.credit = 0

    def ack(self, ack: Ack, decision: Decision) -> None:
        acked = ack.acked
        if not ack.is_cwnd_limited:
            return
        if decision.cwnd < decision.ssthresh:
            step = min(acked, decision.ssthresh - decision.cwnd)
            decision.cwnd += step
            acked -= step
        if self.credit >= decision.cwnd << 10:
            self.credit = 0
            decision.cwnd += 1
        self.credit += acked * 1024
        if self.credit >= decision.cwnd << 10:
            grown = self.credit // (decision.cwnd << 10)
            self.credit -= grown * (decision.cwnd << 10)
            decision.cwnd += grown

    def loss(self, ack: Ack, decision: Decision) -> None:
        self.credit = 0
        decision.ssthresh = max(decision.cwnd // 2, 2)


def scenario(name: str, **changes: object) -> longhaul.Scenario:
    flows = [{"name": "file", "from": "a", "to": "b", "cc": name}, {"name": "later", "from": "a", "to": "b", "cc": name, "start": "1s"}]
    return longhaul.Scenario(scenario_of(duration="10s", flow=flows, **changes), set={"link.a-b.loss": "0.1%"})


def test_class_does_what_the_same_rules_in_c_do() -> None:
    ours = scenario("lh_mine", repeat=2).simulate(cc=[Mine], progress=False)
    theirs = scenario("lh_reno", repeat=2).simulate(progress=False)
    for own, other in zip(ours, theirs, strict=True):
        assert own.summary["metrics"] == other.summary["metrics"]
        assert [flow["bytes"] for flow in own.summary["flows"]] == [flow["bytes"] for flow in other.summary["flows"]]
    told = ours[0].manifest["congestion_controls"]["lh_mine"]["file"]
    assert told == {"name": "test_control.Mine", "sha256": digest(Mine)}


def test_class_goes_to_workers(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        far = scenario("lh_mine").simulate(tmp_path, cc=[Mine], executor=executor, progress=False)
    assert far[0].summary == scenario("lh_mine").simulate(cc=[Mine], progress=False)[0].summary


def test_changed_class_is_run_again(tmp_path: Path) -> None:
    def make(share: int) -> type[CongestionControl]:
        class Changed(CongestionControl):
            kept = share

            def ack(self, ack: Ack, decision: Decision) -> None:
                decision.cwnd += ack.acked * (decision.cwnd < decision.ssthresh)

            def loss(self, ack: Ack, decision: Decision) -> None:
                decision.ssthresh = max(decision.cwnd * self.kept // 100, 2)

        return Changed

    first = scenario("lh_changed").simulate(tmp_path, cc=[make(50)], progress=False)
    goodput = first[0].summary["metrics"]["goodput_bps"]

    class Changed(CongestionControl):
        def ack(self, ack: Ack, decision: Decision) -> None:
            decision.cwnd += ack.acked * (decision.cwnd < decision.ssthresh)

        def loss(self, ack: Ack, decision: Decision) -> None:
            decision.ssthresh = 2

    second = scenario("lh_changed").simulate(tmp_path, cc=[Changed], progress=False)
    assert second[0].summary["metrics"]["goodput_bps"] < goodput


def test_what_a_class_raises_is_raised_with_its_place() -> None:
    class Raises(CongestionControl):
        def ack(self, ack: Ack, decision: Decision) -> None:
            if ack.now_us > 1_000_000:
                raise ZeroDivisionError("by design")

    with pytest.raises(longhaul.CongestionControlError, match="raised.*by design") as failed:
        scenario("lh_raises").simulate(cc=[Raises], progress=False)
    cause = failed.value.__cause__
    assert isinstance(cause, ZeroDivisionError) and cause.__traceback__ is not None
    assert "cc_raises_ack" in str(failed.value) and "in force: cwnd" in str(failed.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("decision.cwnd = 0", "leaves cwnd 0"),
        ("decision.cwnd -= 1", "makes cwnd smaller"),
        ("decision.cwnd = -1", "raised OverflowError"),
        ("decision.cwnd = 1.5", "raised TypeError"),
        ("ack.acked = 1", "raised AttributeError"),
        ("ack.nothing", "raised AttributeError"),
    ],
)
def test_what_the_contract_forbids_ends_the_run(change: str, words: str) -> None:
    names: dict[str, type[CongestionControl]] = {}
    exec(f"class Wrong(base):\n def ack(self, ack, decision):\n  {change}\n", {"base": CongestionControl}, names)
    with pytest.raises(longhaul.CongestionControlError, match=words):
        scenario("lh_wrong").simulate(cc=[names["Wrong"]], progress=False)


def test_rate_control_sets_window_and_rate() -> None:
    class Constant(CongestionControl):
        kind = "rate"

        def init(self, ack: Ack, decision: Decision) -> None:
            self.acks = 0

        def ack(self, ack: Ack, decision: Decision) -> None:
            self.acks += 1
            decision.cwnd, decision.pacing_rate = 400, 500_000

    (record,) = scenario("lh_constant").simulate(cc=[Constant], progress=False)
    goodputs = [flow["goodput_bps"] for flow in record.summary["flows"]]
    # 4 Mbit/s each, of a link of 10.
    assert all(3.3e6 < goodput < 4e6 for goodput in goodputs), goodputs


def test_names_of_other_controls_are_taken() -> None:
    class Reno(CongestionControl):
        pass

    with pytest.raises(longhaul.CongestionControlError, match="choose another"):
        longhaul.load_congestion_control(Reno)
    with pytest.raises(TypeError, match="subclass"):
        longhaul.load_congestion_control(int)  # type: ignore[arg-type]


def test_objects_of_connections_go_with_their_simulation() -> None:
    import gc
    import weakref

    alive: list[weakref.ref[CongestionControl]] = []

    class Counted(CongestionControl):
        def __init__(self) -> None:
            alive.append(weakref.ref(self))

    scenario("lh_counted").simulate(cc=[Counted], progress=False)
    gc.collect()
    assert len(alive) >= 2 and not any(object() for object in alive)
