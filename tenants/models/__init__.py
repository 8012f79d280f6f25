from tenants.models.adoption import AdoptedNamespace
from tenants.models.announcement import Announcement, AnnouncementLevel
from tenants.models.budget import Budget
from tenants.models.cohort import Cohort
from tenants.models.invitation import Invitation
from tenants.models.membership import Membership, Role
from tenants.models.notification import (
    MailTimes,
    Notification,
    NotificationChoice,
    NotificationKind,
)
from tenants.models.priority import PriorityClass
from tenants.models.quota import Quota
from tenants.models.quota_request import (
    QuotaGrant,
    QuotaRequest,
    QuotaRequestEvent,
    StarterRule,
)
from tenants.models.tenancy import Tenancy
from tenants.models.tenant import Tenant
from tenants.models.token import ApiToken, SignInLink
from tenants.models.user import User
from tenants.models.webhook import Webhook, WebhookNotice

__all__ = [
    "AdoptedNamespace",
    "Announcement",
    "AnnouncementLevel",
    "ApiToken",
    "Budget",
    "Cohort",
    "Invitation",
    "MailTimes",
    "Membership",
    "Notification",
    "NotificationChoice",
    "NotificationKind",
    "PriorityClass",
    "Quota",
    "QuotaGrant",
    "QuotaRequest",
    "QuotaRequestEvent",
    "Role",
    "SignInLink",
    "StarterRule",
    "Tenancy",
    "Tenant",
    "User",
    "Webhook",
    "WebhookNotice",
]
