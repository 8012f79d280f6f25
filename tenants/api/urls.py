from django.urls import path
from rest_framework.routers import SimpleRouter

from tenants.api.invitation_door import InvitationDoor
from tenants.api.membership_door import MembershipDoor
from tenants.api.quota_request_door import QuotaRequestDoor
from tenants.api.viewsets import MeDoor, QuotaDoor, TenantDoor, TokenDoor

router = SimpleRouter(trailing_slash=False)
router.register("tokens", TokenDoor, basename="token")
router.register("tenants", TenantDoor, basename="tenant")
router.register("quotas", QuotaDoor, basename="quota")
router.register("quota-requests", QuotaRequestDoor, basename="quota-request")
router.register(
    "tenants/(?P<slug>[-a-zA-Z0-9_]+)/memberships", MembershipDoor, basename="membership"
)
router.register(
    "tenants/(?P<slug>[-a-zA-Z0-9_]+)/invitations", InvitationDoor, basename="invitation"
)

urlpatterns = [path("me", MeDoor.as_view({"get": "me"}), name="me"), *router.urls]
