"""Names of a package that are imported when they are first used."""

import subprocess
import sys

import pytest

from precede.engine.lazy import lazily


def test_names_are_listed_and_found():
    get, names, every = lazily("precede", {"judgments": "Judgments", "losses": "Exp"})
    from precede import Judgments

    assert get("Judgments") is Judgments
    assert names() == every == ["Exp", "Judgments"]


def test_an_unknown_name_is_an_attribute_error_that_names_the_package():
    get, _, _ = lazily("precede.files", {})
    with pytest.raises(AttributeError, match=r"'precede.files' has no attribute 'nothing'"):
        get("nothing")


@pytest.mark.parametrize(
    "package", ["boosting", "bounds", "dask", "explain", "files", "metrics", "rankers"]
)
def test_a_package_loads_none_of_its_modules_before_a_name_is_used(package):
    code = f"""
import sys, precede.{package}
print(sorted(name for name in sys.modules if name.startswith("precede.{package}.")))
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "False"]


def test_an_estimator_is_imported_without_what_its_fit_may_not_need():
    code = """
import sys, precede
precede.RankBoost
slow = "sklearn.model_selection", "precede.rankers.growers", "matplotlib", "jinja2", "typer"
print([name for name in slow if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
