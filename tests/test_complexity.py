"""The paper's table 1: what is counted and fitted, how it is shown, and that nothing is measured twice."""

import json
from dataclasses import replace

import pytest

from otpe.lab.bench import bench, figures, growth, measurements, points
from otpe.lab.bench.points import Point
from otpe.lab.report import content

# Exponents over n and T from the paper. Those of the deep rules are ours.
KEPT = {
    "bptt": (1, 1), "ottt": (1, 0), "ostl": (2, 0), "otpe": (2, 0), "approx-otpe": (1, 0), "deep-otpe": (2, 0),
    "approx-deep-otpe": (1, 0),
}  # fmt: skip
TOY = replace(
    bench.QUICK, rules=("bptt", "otpe"), sizes=(6, 6, 6), base_steps=3, widths=(6, 12), steps=(3, 5), seconds=0.002
)


def bases(config=bench.QUICK, rules=tuple(KEPT)):
    config = replace(config, rules=rules)
    return points.bases(config, bench._heats(config))


@pytest.mark.parametrize("rule", KEPT)
def test_counted_state_grows_as_in_the_paper(rule):
    (base,) = bases(rules=(rule,))
    n, T = (figures.count(base, axis) for axis in ("width", "steps"))
    assert (n.theory, T.theory) == KEPT[rule]
    assert n.exponent == pytest.approx(KEPT[rule][0], abs=0.01)
    assert T.exponent == pytest.approx(KEPT[rule][1], abs=1e-6)


def test_counted_state_equals_a_count_by_hand():
    (bptt, ottt, ostl) = bases(replace(TOY, sizes=(5, 4, 3), base_batch=2), ("bptt", "ottt", "ostl"))
    assert points.kept(bptt) == 4 * 3 * 2 * (4 + 3), "one float per neuron and step, for two samples"
    assert points.kept(ottt) == 4 * 2 * ((5 + 1) + 4 + (4 + 1) + 3), (
        "one trace per input and bias, one membrane per neuron"
    )
    assert points.kept(ostl) == points.kept(replace(ostl, steps=50)) > 4 * 2 * (5 * 4 + 4 * 3)


def test_the_per_step_form_has_the_theory_of_online_training():
    assert growth.form_of("offline", bench.STEP_BY_STEP) == "steps"
    assert growth.form_of("offline", {"form": "steps"}) == "online", "other traces may be used"
    assert growth.form_of("offline", {}) == "offline"
    assert growth.form_of("step", bench.STEP_BY_STEP) == "step"
    assert growth.expected("otpe", "steps").time == growth.Powers(2, 1, 1, 1)
    assert growth.expected("otpe", "steps").memory == growth.expected("otpe", "step").memory
    step = Point((5, 4, 3), 3, 2, "otpe", "step")
    assert points.state(replace(step, mode="offline", options=bench.STEP_BY_STEP)) == points.state(step)


def section_of(widths, rules=("bptt", "otpe"), finished=True, left_out=()):
    """Return a section whose points take exactly n² T seconds, at these widths of each rule."""
    measured = measurements.blank(TOY) | {"finished": finished, "left_out": list(left_out)}
    for rule in rules:
        for axes in (*({"width": n} for n in widths[rule]), {"steps": 10}, {"steps": 20}):
            n, T = axes.get("width", 6), axes.get("steps", 3)
            options = {} if rule == "bptt" else bench.STEP_BY_STEP
            measured["points"].append({
                "sizes": [n] * 3, "steps": T, "batch": 1, "rule": rule, "mode": "offline", "axes": axes, "options": options,
                "seconds": {"median": n**2 * T}, "peak_bytes": 1, "bytes": {"working": 3 * 4 * T * 2 * n}, "state_bytes": None,
            })  # fmt: skip
    measured["growth"] = growth.fitted(measured["points"])
    shown = bases(TOY, ("bptt", "otpe", "deep-otpe"))
    return figures.section(measured, shown, name="toy", title="Toy", command="otpe toy")


def test_the_table_has_the_measured_values():
    (table,) = section_of({"bptt": (6, 12), "otpe": (6, 12)}).tables
    assert table.columns == (
        "rule", "measured", "paper: space", "kept over n, 64–4,096", "kept over T, 10–10,000", "paper: time",
        "time over n, 6–12", "time over T, 10–20",
    )  # fmt: skip
    assert table.rows == [
        ("bptt", "whole sequence", "O(T n)", "1.00 (1)", "1.00 (1)", "O(T n²)", "2.00 (2)", "1.00 (1)"),
        ("otpe", "T single steps", "O(n²)", "1.99 (2)", "0.00 (0)", "O(T n²)", "2.00 (2)", "1.00 (1)"),
        ("deep-otpe", "T single steps", "ours: O(L n²)", "1.99 (2)", "0.00 (0)", "ours: O(T L n²)", "not measured", "not measured"),
    ]  # fmt: skip


def test_a_rule_without_a_backward_form_is_measured_step_by_step():
    measured = measurements.blank(TOY)
    shown = [Point((6, 6, 6), 3, 1, rule, "offline") for rule in ("otpe", "rtrl")]
    (table,) = figures.section(measured, shown, name="toy", title="Toy", command="otpe toy").tables
    assert [row[1] for row in table.rows] == ["whole sequence", "T single steps"]


def test_the_figures_have_a_line_per_rule():
    state, time = section_of({"bptt": (6, 12), "otpe": (12, 6)}).figures
    assert [line.name for panel in state.panels for line in panel.lines] == ["bptt", "otpe", "deep-otpe"] * 2
    over_n, over_T = time.panels
    assert [(line.name, line.x, line.y) for line in over_n.lines] == [
        ("bptt", [6, 12], [108e3, 432e3]), ("otpe", [6, 12], [108e3, 432e3]),
    ]  # fmt: skip
    assert over_T.x == "time steps, T"
    assert over_T.lines[0].y == [360e3, 720e3]
    assert all(panel.log_x and panel.log_y for figure in (state, time) for panel in figure.panels)


def test_the_remarks_name_missing_points():
    left_out = {"rule": "otpe", "mode": "offline", "sizes": [24] * 3, "steps": 3, "why": "needs 9 GB"}
    section = section_of({"bptt": (6, 12, 24), "otpe": (6, 12)}, finished=False, left_out=[left_out])
    assert section.tables[0].rows[1][-2] == "2.00 (2), 6–12 only"
    remarks = "\n".join(section.remarks)
    assert "Left out: otpe, offline, 24-24-24, T 3: needs 9 GB." in remarks
    assert "Counted but not timed here: deep-otpe." in remarks
    assert "Stopped before all was measured." in remarks
    assert "The compiled BPTT plans 3.0 times that." in remarks
    assert "Ours, not the paper's: deep-otpe." in remarks
    whole = "\n".join(section_of({"bptt": (6, 12), "otpe": (6, 12)}).remarks)
    assert "Left out" not in whole
    assert "Stopped" not in whole


def test_an_exponent_that_differs_from_theory_is_named(monkeypatch):
    assert "What is kept grows as theory predicts." in section_of({}, rules=()).lead
    other = {"otpe": "ottt"}
    monkeypatch.setattr(figures, "expected", lambda rule, form: growth.expected(other.get(rule, rule), form))
    assert "What is kept grows other than expected for otpe." in section_of({}, rules=()).lead


# The study


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(bench, "QUICK", TOY)


def heats_in(monkeypatch, stop_in=None):
    """Record the heats that are measured from here on. Press Ctrl-C in heat number `stop_in`."""
    race, seen = points.race, []

    def noted(*args):
        seen.append(args)
        if len(seen) == stop_in:
            raise KeyboardInterrupt
        return race(*args)

    monkeypatch.setattr(points, "race", noted)
    return seen


def test_a_stopped_study_resumes_where_it_was(tmp_path, monkeypatch, toy):
    with monkeypatch.context() as patch:
        heats_in(patch, stop_in=2)
        with pytest.raises(KeyboardInterrupt, match=r"What was measured until now is kept; the same command goes on\."):
            bench.study(quick=True, out=tmp_path)
    first = json.loads((tmp_path / "points.json").read_text())
    assert [(p["rule"], p["sizes"], p["options"]) for p in first["points"]] == [
        ("bptt", [6, 6, 6], {}), ("otpe", [6, 6, 6], bench.STEP_BY_STEP),
    ]  # fmt: skip
    assert not first["finished"]

    with monkeypatch.context() as patch:
        seen = heats_in(patch)
        section = bench.study(quick=True, out=tmp_path)
        assert len(seen) == 2, "the other width and the other T"
    after = json.loads((tmp_path / "points.json").read_text())
    assert after["points"][:2] == first["points"]
    assert after["finished"]
    assert after["seconds"] > first["seconds"] > 0
    assert "not measured" not in section.tables[0].rows[0]

    monkeypatch.setattr(bench, "race", lambda *_: pytest.fail("measured again"))
    again = bench.study(quick=True, out=tmp_path)
    assert content.to_json(again) == content.to_json(section)
    back = content.from_json(content.to_json(section))
    assert (back.name, back.where, back.command) == ("complexity", "Table 1", "otpe reproduce complexity --quick")
    assert content.to_json(back) == content.to_json(section)
    assert [row[0] for row in back.tables[0].rows] == list(bench.FULL.rules)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("{", ValueError, r"points\.json is damaged"),
        ("{}", FileExistsError, r"points\.json belongs to a run with other settings: rules was None, now is"),
        ({"base_steps": 4}, FileExistsError, "settings: base_steps was 4, now is 3"),
        (
            {"device": "TPU v9"},
            FileExistsError,
            r"device was 'TPU v9', now is .*\. Use the same ones, or another folder\.",
        ),
    ],
    ids=["damaged", "something else", "other settings", "another machine"],
)
def test_files_of_another_study_are_left_unchanged(tmp_path, monkeypatch, toy, content, error, message):
    monkeypatch.setattr(bench, "race", lambda *_: pytest.fail("measured something"))
    if isinstance(content, dict):
        blank = measurements.blank(points.checked(replace(TOY, out=tmp_path)))
        content = json.dumps(blank | content | {"config": blank["config"] | content})
    (tmp_path / "points.json").write_text(content)
    with pytest.raises(error, match=message):
        bench.study(quick=True, out=tmp_path)
    assert (tmp_path / "points.json").read_text() == content


def test_a_file_instead_of_the_folder_is_refused(tmp_path):
    (tmp_path / "a-file").touch()
    with pytest.raises(NotADirectoryError, match="which is a file, expected a folder"):
        bench.study(quick=True, out=tmp_path / "a-file")


def test_programs_too_large_to_compile_together_are_left_out():
    config = replace(TOY, rules=("ottt", "rtrl"), modes=("step",), widths=(30,), steps=(), max_gb=1e-3)
    measured = measurements.blank(config)
    (heat,) = points.heats(config)
    bench.race(heat, config, measured, at_once=2)
    assert [point["rule"] for point in measured["points"]] == ["ottt"]
    assert [(point["rule"], point["why"][:5]) for point in measured["left_out"]] == [("rtrl", "needs")]
