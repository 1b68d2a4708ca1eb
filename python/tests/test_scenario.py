# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import copy
import pickle
from pathlib import Path

import longhaul
import pytest
from conftest import scenario_of


def test_dict_and_file_are_the_same_scenario(tmp_path: Path) -> None:
    made = longhaul.Scenario(scenario_of(repeat=2))
    file = tmp_path / "two.toml"
    file.write_text(made.text)
    loaded = longhaul.Scenario.load(file)
    assert [run.to_dict() for run in made.runs()] == [run.to_dict() for run in loaded.runs()]
    assert (made.title, len(made)) == ("two hosts", 2)


def test_runs_have_their_point_and_repeat() -> None:
    scenario = longhaul.Scenario(scenario_of(sweep={"link.a-b.delay": ["5ms", "20ms"]}, repeat=2))
    assert scenario.axes == {"link.a-b.delay": ["5ms", "20ms"]}
    assert [(run.point, run.repeat) for run in scenario.runs()] == [
        ({"link.a-b.delay": delay}, repeat) for repeat in (1, 2) for delay in ("5ms", "20ms")
    ]
    assert len({run.seed for run in scenario.runs()}) == 2


@pytest.mark.parametrize("settings", [{"duration": "3s", "repeat": 4}, ["duration=3s", "repeat=4"]])
def test_settings_change_keys(settings: dict[str, object] | list[str]) -> None:
    scenario = longhaul.Scenario(scenario_of(), set=settings)
    assert len(scenario) == 4
    written = longhaul.Scenario(scenario_of(duration="3s", repeat=4))
    assert [run.to_dict() for run in scenario.runs()] == [run.to_dict() for run in written.runs()]


def test_settings_may_be_numbers_lists_and_tables() -> None:
    outages = [{"from": "1s", "for": "100ms", "packets": "lost"}]
    scenario = longhaul.Scenario(scenario_of(), set={"link.a-b.outages": outages, "link.a-b.loss": 0.01, "vary": False})
    assert "'packets_wait': False" in repr(scenario.runs()[0].to_dict()["links"])


def test_variants_can_be_chosen() -> None:
    variants = [{"name": name, "label": name, "set": {"flow.file.cc": f"lh_{name}"}} for name in ("cubic", "reno")]
    scenario = longhaul.Scenario(scenario_of(variant=variants))
    assert list(scenario.variants) == ["cubic", "reno"]
    assert [run.variant for run in scenario.only("reno").runs()] == ["reno"]
    with pytest.raises(longhaul.ScenarioError, match="cubic, reno"):
        scenario.only("vegas")


def test_problems_have_line_and_remedy(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('tittle = "x"\nduration = "3"\n')
    with pytest.raises(longhaul.ScenarioError) as refused:
        longhaul.Scenario.load(file)
    lines = {problem.line: problem.message for problem in refused.value.problems}
    assert 'did you mean "title"' in lines[1]
    assert all(problem.place in str(refused.value) for problem in refused.value.problems)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tittle": "x"}, "tittle"),
        ({"title": None}, "title is None"),
        ({"link": [{"rate": None}]}, r"link\[0\].rate is None"),
        ({"title": {1, 2}}, "set is not JSON"),
        ({"title": float("nan")}, "not JSON compliant"),
        ({}, "title"),
    ],
)
def test_wrong_dicts_are_refused_with_the_key(values: dict[str, object], words: str) -> None:
    with pytest.raises(longhaul.ScenarioError, match=words):
        longhaul.Scenario(values)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(longhaul.ScenarioError, match="--set nothing=1"):
        longhaul.Scenario(scenario_of(), set={"nothing": 1})
    with pytest.raises(TypeError, match="a dict"):
        longhaul.Scenario(scenario_of(), set="duration=3s")


def test_missing_file_is_pythons_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        longhaul.Scenario.load(tmp_path / "none.toml")
    assert missing.value.filename == str(tmp_path / "none.toml")


def test_check_names_what_a_method_cannot_do() -> None:
    scenario = longhaul.Scenario(scenario_of(flow=[{"name": "file", "from": "a", "to": "b", "cc": "vegas"}]))
    with pytest.raises(longhaul.UnsupportedError, match="vegas"):
        scenario.check("sim")
    with pytest.raises(longhaul.UnsupportedError, match="lab run --method emu"):
        scenario.check("emu")


def test_scenarios_are_pickled_and_copied() -> None:
    scenario = longhaul.Scenario(scenario_of(repeat=3), set={"duration": "3s"})
    for other in (pickle.loads(pickle.dumps(scenario)), copy.deepcopy(scenario)):
        assert [run.to_dict() for run in other.runs()] == [run.to_dict() for run in scenario.runs()]
