from datetime import UTC, date, datetime, timedelta

import factory
from factory.django import DjangoModelFactory

from tenants.models import (
    AdoptedNamespace,
    Announcement,
    ApiToken,
    Budget,
    Cohort,
    Invitation,
    MailTimes,
    Membership,
    Notification,
    NotificationChoice,
    PriorityClass,
    Quota,
    QuotaGrant,
    QuotaRequest,
    QuotaRequestEvent,
    Role,
    SignInLink,
    StarterRule,
    Tenancy,
    Tenant,
    User,
    Webhook,
    WebhookNotice,
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


class BudgetFactory(DjangoModelFactory):
    """100 GPU-hours for a day from T0 on."""

    class Meta:
        model = Budget

    tenant = factory.SubFactory(TenantFactory)
    cluster = factory.SubFactory("tests.factories.topology.ClusterFactory")
    gpu_hours = 100
    from_at = T0
    until_at = T0 + timedelta(days=1)


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


class InvitationFactory(DjangoModelFactory):
    """Open as long as the tests run."""

    class Meta:
        model = Invitation

    tenant = factory.SubFactory(TenantFactory)
    email = factory.Sequence(lambda n: f"invited-{n}@example.org")
    invited_by = factory.SubFactory(UserFactory)
    asked_at = T0
    expires_at = T0 + timedelta(days=36500)


class QuotaRequestFactory(DjangoModelFactory):
    """A draft for 8 GPUs of one flavor in the first quarter of 2026, with a reason long enough."""

    class Meta:
        model = QuotaRequest

    tenant = factory.SubFactory(TenantFactory)
    flavor = factory.SubFactory("tests.factories.topology.FlavorFactory")
    cluster = factory.SelfAttribute("flavor.cluster")
    requested_by = factory.SubFactory(UserFactory)
    gpus = 8
    starts_on = date(2026, 1, 1)
    ends_on = date(2026, 3, 31)
    justification = "Pre-training of the next language model, three runs of ten days."


class QuotaGrantFactory(DjangoModelFactory):
    """What a request asked for; that it counts is for the state of the request to say."""

    class Meta:
        model = QuotaGrant

    request = factory.SubFactory(QuotaRequestFactory)
    flavor = factory.SelfAttribute("request.flavor")
    gpus = factory.SelfAttribute("request.gpus")
    borrowing_gpus = factory.SelfAttribute("request.borrowing_gpus")
    gpu_hours = factory.SelfAttribute("request.gpu_hours")
    starts_on = factory.SelfAttribute("request.starts_on")
    ends_on = factory.SelfAttribute("request.ends_on")


class QuotaRequestEventFactory(DjangoModelFactory):
    class Meta:
        model = QuotaRequestEvent

    request = factory.SubFactory(QuotaRequestFactory)
    action = "submit"
    to_state = "submitted"
    at = T0


class StarterRuleFactory(DjangoModelFactory):
    class Meta:
        model = StarterRule

    flavor = factory.SubFactory("tests.factories.topology.FlavorFactory")
    most_gpus = 2
    most_days = 30


class NotificationFactory(DjangoModelFactory):
    """Of a job that ended, unread."""

    class Meta:
        model = Notification

    user = factory.SubFactory(UserFactory)
    kind = "job_ended"
    key = factory.Sequence(lambda n: f"job-event:{n}")
    facts = {"job": "train", "state": "succeeded"}
    link = "/jobs/"
    happened_at = T0


class NotificationChoiceFactory(DjangoModelFactory):
    class Meta:
        model = NotificationChoice

    user = factory.SubFactory(UserFactory)
    kind = "job_ended"


class MailTimesFactory(DjangoModelFactory):
    """At once, at any hour."""

    class Meta:
        model = MailTimes

    user = factory.SubFactory(UserFactory)


class WebhookFactory(DjangoModelFactory):
    """A person's, of Slack, told of jobs that fail."""

    class Meta:
        model = Webhook

    user = factory.SubFactory(UserFactory)
    made_by = factory.LazyAttribute(lambda hook: hook.user or UserFactory())
    name = factory.Sequence(lambda n: f"chat-{n}")
    style = "slack"
    url = "https://hook.example.org/services/x"
    kinds = ["job_failed"]


class WebhookNoticeFactory(DjangoModelFactory):
    """Of a job that failed, to be sent."""

    class Meta:
        model = WebhookNotice

    webhook = factory.SubFactory(WebhookFactory)
    kind = "job_failed"
    key = factory.Sequence(lambda n: f"job-event:{n}")
    facts = {"job": "train", "state": "failed"}
    link = "/jobs/"
    happened_at = T0


class AnnouncementFactory(DjangoModelFactory):
    """For a day from T0 on."""

    class Meta:
        model = Announcement

    text = "The storage is slow today."
    from_at = T0
    until_at = T0 + timedelta(days=1)


class AdoptedNamespaceFactory(DjangoModelFactory):
    """Taken over at T0."""

    class Meta:
        model = AdoptedNamespace

    cluster = factory.SubFactory("tests.factories.topology.ClusterFactory")
    name = factory.Sequence(lambda n: f"team-{n}")
    tenant = factory.SubFactory(TenantFactory)
    asked_at = T0
    taken_at = T0


class TenancyFactory(DjangoModelFactory):
    """Looked at once, and as it should be."""

    class Meta:
        model = Tenancy

    tenant = factory.SubFactory(TenantFactory)
    cluster = factory.SubFactory("tests.factories.topology.ClusterFactory")
    checked_at = T0
