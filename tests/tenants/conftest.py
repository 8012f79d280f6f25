import pytest

from tests.factories import MembershipFactory, UserFactory


@pytest.fixture
def member(db):
    """A researcher of the tenant `vision`."""
    return MembershipFactory(user__username="ada", tenant__slug="vision", tenant__name="Vision")


@pytest.fixture
def operator(db):
    return UserFactory(username="op", is_operator=True)
