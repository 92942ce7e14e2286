"""Checks of parameters name the parameter, its value and the remedy."""

import pickle

import numpy as np
import pytest

from precede.engine.parameters import (
    Argument,
    ParameterError,
    ParameterWarning,
    check_bool,
    check_choice,
    check_integer,
    check_range,
    upper_tail,
)


@pytest.mark.parametrize(
    "check",
    [
        lambda: check_integer("rounds", 1, least=1),
        lambda: check_integer("rounds", np.int64(9), least=1, most=9),
        lambda: check_range("rate", 1, 0, 1),
        lambda: check_range("rate", np.float32(0.5), 0, 1),
        lambda: check_bool("warm", np.bool_(True)),
        lambda: check_choice("kind", "a", ("a", "b")),
    ],
)
def test_valid_values_pass(check):
    assert check() is None


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (lambda: check_integer("rounds", 0, least=1), "rounds=0 .* whole number from 1$"),
        (lambda: check_integer("rounds", 10, least=1, most=9), "rounds=10 .* from 1 to 9"),
        (lambda: check_integer("rounds", True, least=1), "rounds=True"),
        (lambda: check_integer("rounds", 2.0, least=1), "rounds=2.0"),
        (lambda: check_range("rate", 0, 0, 1), "rate=0 .* more than 0, up to 1"),
        (lambda: check_range("rate", np.nan, 0, 1), "rate=nan"),
        (lambda: check_range("rate", "1", 0, 1), "rate='1'"),
        (lambda: check_bool("warm", 1), "warm=1; use True or False"),
        (lambda: check_choice("kind", "c", ("a", "b")), "kind='c'; choose one of a, b"),
        (lambda: upper_tail(95), "level=95; .* between 0 and 1"),
        (lambda: upper_tail("0.95"), "level='0.95'"),
    ],
)
def test_errors_name_the_parameter(check, told):
    with pytest.raises(ValueError, match=told):
        check()


def test_each_tail_is_half_of_the_error_probability():
    assert upper_tail(0.9) == pytest.approx(0.05)


def test_errors_and_warnings_are_pickled_and_written_with_other_names():
    for kind in (ParameterError, ParameterWarning):
        message = pickle.loads(pickle.dumps(kind("use ", Argument("qid", "q"), " instead")))
        assert isinstance(message, kind)
        assert str(message) == "use qid='q' instead"
        assert message.render(lambda each: f"--{each.name} {each.value}") == "use --qid q instead"
