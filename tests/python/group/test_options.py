"""Options: what is accepted, what is refused, and what an error names."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import warnings

import pytest

import holdfast
from holdfast import ConfigError, Options, _core


def test_the_defaults_are_usable():
    assert Options.from_env({}) == Options()


def test_a_list_of_transports_becomes_a_tuple_and_options_can_be_a_key():
    from_list = Options(transports=["tcp"])  # type: ignore[arg-type]
    assert {from_list: 1}[Options(transports=("tcp",))] == 1


def test_options_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        ("transports", (), "tuple of names"),
        ("transports", "shm", "tuple of names"),
        ("transports", (1,), "tuple of names"),
        ("transports", None, "tuple of names"),
        ("transports", ("udp",), '"shm" and one of "tcp" and "ucx"'),
        ("transports", ("tcp", "tcp"), "at most once"),
        ("transports", ("shm", "ucx", "tcp"), 'one of "tcp" and "ucx"'),
        ("timeout", 0, "number of seconds"),
        ("timeout", -1.0, "number of seconds"),
        ("timeout", float("nan"), "number of seconds"),
        ("timeout", float("inf"), "number of seconds"),
        ("timeout", "soon", "number of seconds"),
        ("timeout", True, "number of seconds"),
        ("connect_timeout", 1e12, "at most one year"),
        ("address", 5, "a string"),
        ("address", "0.0.0.0", "numeric address of one interface"),
        ("port", -1, "0 to 65535"),
        ("port", 65536, "0 to 65535"),
        ("port", "http", "0 to 65535"),
        ("port", 1.5, "0 to 65535"),
        ("host_id", "a=b", "printable"),
        ("host_id", "x" * 257, "printable"),
        ("domain", "a//b", "at most 7 names"),
        ("domain", "a/", "at most 7 names"),
        ("domain", "a=b", "at most 7 names"),
        ("domain", "x" * 65, "at most 7 names"),
        ("domain", "/".join("abcdefgh"), "at most 7 names"),
        ("algorithm", "bogus", "ring"),
        ("time_slice", 0.00001, "100 microseconds to 100 milliseconds, or 0"),
        ("time_slice", 1, "100 microseconds to 100 milliseconds, or 0"),
        ("time_slice", False, "number of seconds"),
        ("measure", -1.0, "number of seconds"),
        ("measure", 601, "at most 600, in s; or 0 not to measure"),
        ("on_hole", "ignore", '"raise" or "zero"'),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_what_is_accepted(option, value, accepted):
    with pytest.raises(ConfigError, match=f"option {option} = .*; accepted: .*{accepted}"):
        Options(**{option: value})


@pytest.mark.parametrize(
    ("variable", "text", "option", "value"),
    [
        ("HOLDFAST_TRANSPORTS", "tcp", "transports", ("tcp",)),
        ("HOLDFAST_TRANSPORTS", " shm , tcp ", "transports", ("shm", "tcp")),
        ("HOLDFAST_TIMEOUT", "2.5", "timeout", 2.5),
        ("HOLDFAST_CONNECT_TIMEOUT", "7", "connect_timeout", 7.0),
        ("HOLDFAST_TIME_SLICE", "0.002", "time_slice", 0.002),
        ("HOLDFAST_TIME_SLICE", "0", "time_slice", 0.0),
        ("HOLDFAST_MEASURE", "2.5", "measure", 2.5),
        ("HOLDFAST_MEASURE", "0", "measure", 0.0),
        ("HOLDFAST_ADDRESS", "127.0.0.1", "address", "127.0.0.1"),
        ("HOLDFAST_PORT", "29400", "port", 29400),
        ("HOLDFAST_HOST_ID", "left", "host_id", "left"),
        ("HOLDFAST_DOMAIN", "site-a/rack 2", "domain", "site-a/rack 2"),
        ("HOLDFAST_DOMAIN", "a/b/c/d/e/f/g", "domain", "a/b/c/d/e/f/g"),
        ("HOLDFAST_ALGORITHM", "ring", "algorithm", "ring"),
        ("HOLDFAST_ALGORITHM", "", "algorithm", ""),
        ("HOLDFAST_ON_HOLE", "zero", "on_hole", "zero"),
    ],
)
def test_the_environment_sets_each_option(variable, text, option, value):
    assert getattr(Options.from_env({variable: text}), option) == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("HOLDFAST_TRANSPORTS", "shm,udp"),
        ("HOLDFAST_TRANSPORTS", ","),
        ("HOLDFAST_TIMEOUT", "soon"),
        ("HOLDFAST_TIMEOUT", "0"),
        ("HOLDFAST_CONNECT_TIMEOUT", "-1"),
        ("HOLDFAST_PORT", "http"),
        ("HOLDFAST_PORT", "70000"),
        ("HOLDFAST_ADDRESS", "0.0.0.0"),
        ("HOLDFAST_ALGORITHM", "rong"),
        ("HOLDFAST_ON_HOLE", "nan"),
        ("HOLDFAST_MEASURE", "a while"),
        ("HOLDFAST_MEASURE", "601"),
    ],
)
def test_an_error_names_the_variable_its_text_and_what_is_accepted(variable, text):
    innocent = {"HOLDFAST_HOST_ID": "here"}
    with pytest.raises(ConfigError, match="; accepted: ") as caught:
        Options.from_env({**innocent, variable: text})
    assert f"{variable} = {text!r}" in str(caught.value)
    assert "HOLDFAST_HOST_ID" not in str(caught.value)


def test_an_unknown_variable_is_warned_of_with_the_closest_name():
    with pytest.warns(UserWarning, match="did you mean HOLDFAST_TIMEOUT"):
        Options.from_env({"HOLDFAST_TIMOUT": "3"})
    with pytest.warns(UserWarning, match="known: HOLDFAST_TRANSPORTS"):
        Options.from_env({"HOLDFAST_ZQJX": "3"})


def test_variables_of_the_launcher_are_no_unknown_options():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Options.from_env({"HOLDFAST_STORE": "file:///x", "PATH": "/bin"})


def test_the_options_are_the_rows_of_the_native_table_in_their_order():
    fields = dataclasses.fields(Options)
    assert [field.name for field in fields] == [row[0] for row in _core.option_rows()]
    # Each has its part in the doc of the class, with its variable.
    for name, variable, *_ in _core.option_rows():
        assert f"    {name} : " in str(Options.__doc__)
        assert f"``{variable}``" in str(Options.__doc__)


def test_defaults_are_of_the_types_that_the_class_names():
    usual = Options()
    assert (usual.transports, usual.timeout, usual.time_slice) == (("shm", "tcp"), 1800.0, 0.0001)
    assert (usual.port, usual.codec_min_bytes, usual.cuda_ipc) == (0, 65536, "auto")
    assert (usual.tune, usual.fault_tolerance, usual.on_hole) == (False, True, "raise")
    assert type(usual.timeout) is float
    assert type(usual.tune) is bool


def test_importing_holdfast_imports_no_torch():
    code = "import sys, holdfast; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_the_public_names_are_there():
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None
    assert holdfast.__version__ == "0.1.0"
