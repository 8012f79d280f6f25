import pytest


@pytest.fixture
def as_root(as_person):
    return as_person("root")
