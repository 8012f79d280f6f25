from datetime import timedelta

import pytest

from portal.core.errors import NotAllowed, Refused
from portal.core.models import AuditEvent
from tenants.models import ApiToken
from tenants.services.tokens import TokenRequest, create_token, revoke_token, user_of_token
from tests.factories import UserFactory
from tests.factories.tenants import T0

YEAR = timedelta(days=365)


def token_request(**changes):
    usual = {"name": "ci", "scopes": ["jobs:read"], "expires_at": T0 + YEAR}
    return TokenRequest(**usual | changes)


@pytest.fixture
def made(member):
    """A new token of ada's that reads jobs for a year."""
    return create_token(token_request(), by=member.user, at=T0)


def test_a_token_opens_for_its_user_and_its_secret_is_nowhere_kept(made, member):
    found = user_of_token(made.secret, at=T0)

    assert (found, found.user) == (made.token, member.user)
    secret = made.secret.rpartition("_")[2]
    assert secret not in str(ApiToken.objects.values())
    assert secret not in str(AuditEvent.objects.values())
    assert made.secret == f"mst_{made.token.prefix}_{secret}"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda secret: secret[:-1] + ("0" if secret[-1] != "0" else "1"),
        lambda secret: secret + "0",
        lambda secret: secret[:-1],
        lambda secret: secret.upper(),
        lambda secret: "mst_" + secret.split("_")[2],
        lambda secret: secret.replace("_", "\0"),
        lambda _secret: "",
    ],
)
def test_any_other_text_opens_nothing(made, spoil):
    assert user_of_token(spoil(made.secret), at=T0) is None


def test_a_token_ends_with_its_time(made):
    just_before, at_the_end = T0 + YEAR - timedelta(seconds=1), T0 + YEAR

    assert user_of_token(made.secret, at=just_before) == made.token
    assert user_of_token(made.secret, at=at_the_end) is None


def test_a_token_ends_with_its_user(made, member):
    member.user.is_active = False
    member.user.save()

    assert user_of_token(made.secret, at=T0) is None


def test_a_revoked_token_opens_nothing_and_is_revoked_once(made, member):
    revoke_token(made.token, by=member.user, at=T0 + timedelta(hours=1))
    revoke_token(made.token, by=member.user, at=T0 + timedelta(hours=2))

    assert user_of_token(made.secret, at=T0 + timedelta(hours=3)) is None
    assert ApiToken.objects.get().revoked_at == T0 + timedelta(hours=1)
    assert list(AuditEvent.objects.order_by("pk").values_list("action", flat=True)) == [
        "create_token",
        "revoke_token",
    ]


def test_another_persons_token_is_not_yours_to_revoke(made, operator):
    with pytest.raises(NotAllowed):
        revoke_token(made.token, by=UserFactory(), at=T0)

    assert user_of_token(made.secret, at=T0) == made.token
    revoke_token(made.token, by=operator, at=T0)
    assert user_of_token(made.secret, at=T0) is None


def test_its_use_is_noted_once_a_minute(made, django_assert_num_queries):
    def used_at(seconds):
        user_of_token(made.secret, at=T0 + timedelta(seconds=seconds))
        return (ApiToken.objects.get().last_used_at - T0).total_seconds()

    assert [used_at(seconds) for seconds in (0, 59, 60, 61)] == [0, 0, 60, 60]
    with django_assert_num_queries(1):  # the token with its user
        user_of_token(made.secret, at=T0 + timedelta(seconds=90))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": " "}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["jobs:delete"]}, "scopes"),
        ({"expires_at": T0}, "expires_at"),
        ({"expires_at": T0 + YEAR + timedelta(seconds=1)}, "expires_at"),
    ],
)
def test_a_token_that_may_not_be_is_refused(member, change, field):
    with pytest.raises(Refused) as refused:
        create_token(token_request(**change), by=member.user, at=T0)

    assert refused.value.field == field
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scopes": ["jobs:read", "jobs:write"]}, "scopes"),
        ({"expires_at": T0 + YEAR}, "expires_at"),
    ],
)
def test_a_token_hands_on_no_more_than_it_has(member, change, field):
    short = T0 + timedelta(days=7)
    parent = create_token(token_request(expires_at=short), by=member.user, at=T0).token
    fitting = {"expires_at": short, "within": parent}

    with pytest.raises(NotAllowed) as refused:
        create_token(token_request(**fitting | change), by=member.user, at=T0)

    assert refused.value.field == field
    assert create_token(token_request(**fitting), by=member.user, at=T0).token.expires_at == short
