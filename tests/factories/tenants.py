from datetime import UTC, datetime, timedelta

import factory
from factory.django import DjangoModelFactory

from tenants.models import (
    ApiToken,
    Cohort,
    Membership,
    PriorityClass,
    Quota,
    Role,
    SignInLink,
    Tenant,
    User,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)


class UserFactory(DjangoModelFactory):
    class Meta:
        model = User

    username = factory.Sequence(lambda n: f"user-{n}")
    email = factory.LazyAttribute(lambda user: f"{user.username}@example.org")


class CohortFactory(DjangoModelFactory):
    class Meta:
        model = Cohort

    name = factory.Sequence(lambda n: f"cohort-{n}")


class PriorityClassFactory(DjangoModelFactory):
    class Meta:
        model = PriorityClass

    name = factory.Sequence(lambda n: f"priority-{n}")
    value = factory.Sequence(lambda n: n)


class TenantFactory(DjangoModelFactory):
    class Meta:
        model = Tenant

    slug = factory.Sequence(lambda n: f"tenant-{n}")
    name = factory.LazyAttribute(lambda tenant: tenant.slug)


class MembershipFactory(DjangoModelFactory):
    class Meta:
        model = Membership

    user = factory.SubFactory(UserFactory)
    tenant = factory.SubFactory(TenantFactory)
    role = Role.RESEARCHER


class QuotaFactory(DjangoModelFactory):
    class Meta:
        model = Quota

    tenant = factory.SubFactory(TenantFactory)
    flavor = factory.SubFactory("tests.factories.topology.FlavorFactory")
    nominal = 8


class ApiTokenFactory(DjangoModelFactory):
    class Meta:
        model = ApiToken

    user = factory.SubFactory(UserFactory)
    name = "a token"
    prefix = factory.Sequence(lambda n: f"{n:08}")
    digest = factory.Sequence(lambda n: f"{n:064x}")
    created_at = T0
    expires_at = T0 + timedelta(days=365)


class SignInLinkFactory(DjangoModelFactory):
    class Meta:
        model = SignInLink

    user = factory.SubFactory(UserFactory)
    digest = factory.Sequence(lambda n: f"{n:064x}")
    expires_at = T0 + timedelta(hours=1)
