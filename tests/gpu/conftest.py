"""Tests that need a GPU; `make gpu` runs them."""

import pytest


def why_not():
    """Why there is no GPU to test on; empty if there is one."""
    try:
        from precede.engine.backend import open_backend

        open_backend("cuda")
    except (ImportError, RuntimeError) as error:
        return str(error)
    return ""


WHY_NOT = why_not()


def pytest_collection_modifyitems(items):
    for item in items:
        if WHY_NOT and item.path.parent.name == "gpu":
            item.add_marker(pytest.mark.skip(reason=WHY_NOT))


@pytest.fixture(scope="session")
def device():
    from precede.engine.backend import open_backend

    return open_backend("cuda")
