"""Maps in words and beside each other, as `holdfast topology show` and `diff` print them."""

from __future__ import annotations

import json

import pytest

from holdfast import cli
from holdfast.errors import ConfigError
from holdfast.topology import chart

SITES = {
    "format": 1,
    "levels": [
        {"name": "site", "count": 2, "gbit_per_s": 0.2, "alpha_us": 10000},
        {"name": "rank", "count": 4, "gbit_per_s": 1, "alpha_us": 100},
    ],
}
PAIRS = {
    "format": 1,
    "ranks": 3,
    "domains": [["a"], ["a"], ["b"]],
    "gbit_per_s": [[0, 1, 0.2], [1, 0, 0.2], [0.2, 0, 0]],
    "alpha_us": [[0, 100, 9000], [100, 0, 9000], [9000, 9000, 0]],
    "shared": [{"name": "line", "gbit_per_s": 0.25, "from": [0, 1], "to": [2]}],
}


def write(path, value: dict) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def test_a_map_in_words():
    lines = list(chart.describe(chart.read(json.dumps(SITES))))
    assert lines[0].startswith("8 ranks, map ")
    assert lines[1:4] == [
        "site-0: ranks 0-3",
        "site-1: ranks 4-7",
        "pairs: 1000 Mbit/s, 100 to 10000 us, median 10000",
    ]
    assert '  "site-0 out" 200 Mbit/s: ranks 0-3 to ranks 4-7' in lines
    assert '  "rank-1 in" 1000 Mbit/s: ranks 0, 2-7 to rank 1' in lines
    assert lines[-1] == "  and 12 more"


def test_pairs_that_differ_are_named_and_so_are_missing_ways():
    lines = list(chart.describe(chart.read(json.dumps(PAIRS))))
    assert "1 of 6 directed pairs have no way" in lines
    slowest = next(line for line in lines if line.startswith("slowest pairs: "))
    assert slowest.startswith("slowest pairs: 0 to 2 200 Mbit/s, 1 to 2 200 Mbit/s, 2 to 0 ")
    without = {**PAIRS, "domains": None}
    del without["domains"]
    assert "it does not say where ranks are" in chart.describe(chart.read(json.dumps(without)))


def changed(key: str, value: object) -> list[str]:
    new = json.loads(json.dumps(PAIRS))
    new[key] = value
    return list(chart.differences(chart.read(json.dumps(PAIRS)), chart.read(json.dumps(new)), 0.05))


def test_what_changed_is_told_by_name():
    assert changed("gbit_per_s", [[0, 1, 0.05], [1.04, 0, 0.2], [0.2, 0, 0]]) == [
        "rank 0 to rank 2: 200 Mbit/s, now 50 (0.25 times)"
    ]
    assert changed("alpha_us", [[0, 100, 9000], [200, 0, 9000], [9000, 9000, 0]]) == [
        "rank 1 to rank 0: 100 us one way, now 200 (2.00 times)"
    ]
    assert changed("domains", [["a"], ["b"], ["b"]]) == ["rank 1: in a, now b"]
    assert changed("shared", []) == ['"line" is gone']
    line = {"name": "line", "gbit_per_s": 0.1, "from": [0, 1], "to": [2]}
    assert changed("shared", [line]) == ['"line": 250 Mbit/s, now 100 (0.40 times)']
    assert changed("shared", [{**line, "from": [0]}])[0] == '"line" is shared by others'
    more = [*PAIRS["shared"], {**line, "name": "nic"}]
    assert changed("shared", more) == ['"nic" is new: 100 Mbit/s']


def test_the_command_shows_and_compares(tmp_path, capsys):
    old, new = write(tmp_path / "old.json", SITES), write(tmp_path / "new.json", PAIRS)
    assert cli.main(["topology", "show", old]) == 0
    assert "site-1: ranks 4-7" in capsys.readouterr().out
    assert cli.main(["topology", "show", new, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["kbit_per_s"][0] == [0, 1_000_000, 200_000]
    assert shown["alpha_ns"][2][0] == 9_000_000
    assert cli.main(["topology", "diff", old, old]) == 0
    assert capsys.readouterr().out == "they are alike\n"
    assert cli.main(["topology", "diff", old, new]) == 1
    assert capsys.readouterr().out == "ranks: 8, now 3\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "nowhere.json"], "topology nowhere.json: "),
        (["show", "broken.json"], "broken.json: topology: format: it is missing; accepted: 1"),
        (["diff", "broken.json", "nowhere.json"], "broken.json: topology: format"),
        (["diff", "fine.json", "fine.json", "--tolerance", "200"], "--tolerance 200; accepted"),
    ],
)
def test_trouble_is_status_2_and_a_line(arguments, told, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "broken.json", {})
    write(tmp_path / "fine.json", SITES)
    assert cli.main(["topology", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"holdfast: {told}")
    assert said.count("\n") == 1


def test_a_map_that_cannot_be_used_is_refused():
    with pytest.raises(ConfigError, match="topology: the document"):
        chart.read("[]")
