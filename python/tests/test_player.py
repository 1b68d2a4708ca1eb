# SPDX-License-Identifier: GPL-2.0-or-later
"""The widget: what it gets of a run, and what a browser makes of that."""

from __future__ import annotations

import gc
import json
import subprocess
import weakref
from pathlib import Path

import longhaul
import pytest
from conftest import scenario_of
from longhaul import player

PAGE = """<!doctype html><meta charset="utf-8"><body style="width:800px"><div id="place"></div><script type="module">
// The browser draws few frames in virtual time.
window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);
window.cancelAnimationFrame = clearTimeout;
const code = CODE, run = RUN;
const {default: widget, valueAt, short} = await import(URL.createObjectURL(new Blob([code], {type: "text/javascript"})));
const state = {run, time: 0}, listeners = {};
const model = {
  get: (name) => state[name], set: (name, value) => { state[name] = value; }, save_changes() {},
  on: (what, call) => { listeners[what] = call; }, off: (what) => { delete listeners[what]; },
};
const place = document.getElementById("place");
const end = widget.render({model, el: place});
const pictures = () => [...place.querySelectorAll("canvas")].map((it) => it.toDataURL());
await new Promise((done) => setTimeout(done, 100));
const first = pictures();
state.time = run.duration / 2;
listeners["change:time"]();
const half = pictures();
place.querySelector("button").click();
const label = place.querySelector("button").textContent;
await new Promise((done) => setTimeout(done, 500));
place.querySelector("button").click();
const result = {
  changed: first.map((it, n) => it !== half[n]), played: state.time, label, texts: place.innerText, elements: place.querySelectorAll("img, script").length,
  values: [valueAt([[1, 5], [2, 7]], 0.5), valueAt([[1, 5], [2, 7]], 1), valueAt([[1, 5], [2, 7]], 9), short(0), short(1234), short(2.5e9)],
};
end();
result.left = Object.keys(listeners).length;
document.title = "done";
document.body.textContent = JSON.stringify(result);
</script></body>"""


@pytest.fixture(scope="module")
def record() -> longhaul.Records:
    queue = [{"between": ["a", "b"], "rate": "10mbit", "delay": "20ms", "queue": "20p", "loss": "0.1%"}]
    # A title that would be markup.
    return longhaul.Scenario(scenario_of(title="<img src=x onerror=alert(1)>", duration="10s", link=queue)).simulate(progress=False)


def test_what_is_told_is_small_and_whole(record: longhaul.Records) -> None:
    data = player.data_of(record[0])
    assert data["duration"] == pytest.approx(10, abs=0.5) and data["left_out"] == 0
    assert [hop["name"] for hop in data["hops"]] == ["file/0"]
    busiest = data["links"][0]
    assert busiest["name"] == "a to b" and busiest["delay"] == 0.02 and busiest["lost"]
    assert max(value for _, value in busiest["queue"]) > 0
    assert len(json.dumps(data)) < 500_000
    json.dumps(data, allow_nan=False)


def test_widgets_are_forgotten(record: longhaul.Records) -> None:
    """manzt/anywidget#929: one whose code was a file lived as long as the process."""
    shown = weakref.ref(player.play(record))
    alive = shown()
    assert alive is not None
    alive.close()
    del alive
    gc.collect()
    assert shown() is None


def test_thinning_keeps_peaks() -> None:
    curve = [(n / 10, float(n == 777)) for n in range(100_000)]
    thin = player.thinned(curve, 1000)
    assert len(thin) <= 1000 and (77.7, 1.0) in thin and thin == sorted(thin)
    assert player.thinned(curve[:10], 1000) == curve[:10]


def test_averages_keep_the_sum() -> None:
    curve = [(n / 1000, float(n % 2)) for n in range(10_000)]
    mean = player.averaged(curve, 100)
    assert len(mean) == 100 and all(value == 0.5 for _, value in mean)
    assert player.averaged([], 100) == [] and player.averaged(curve[:3], 100) == curve[:3]


def test_widget_has_the_run(record: longhaul.Records) -> None:
    shown = player.play(record)
    assert shown.run["hops"] and shown.time == 0.0
    assert player.play(record[0]).run == shown.run


def test_browser_draws_and_plays(record: longhaul.Records, tmp_path: Path) -> None:
    code = (Path(player.__file__).parent / "player.js").read_text()
    page = tmp_path / "page.html"

    def text(value: object) -> str:
        return json.dumps(value).replace("<", "\\u003c")

    page.write_text(PAGE.replace("CODE", text(code)).replace("RUN", text(player.data_of(record[0]))))
    chromium = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shown = subprocess.run(
        [*chromium, "--virtual-time-budget=5000", "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    body = shown.stdout.split("<body", 1)[1].split(">", 1)[1].split("</body>")[0].strip()
    result = json.loads(body.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert result["changed"] == [True] * 4, result
    assert result["label"] == "Pause" and 5 < result["played"] <= 10
    assert "<img" in result["texts"] and result["elements"] == 0, "texts of a run are never markup"
    assert result["values"] == [0, 5, 7, "0 ", "1.23 k", "2.5 G"] and result["left"] == 0
