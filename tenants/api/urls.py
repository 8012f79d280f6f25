from django.urls import path
from rest_framework.routers import SimpleRouter

from tenants.api.viewsets import MeDoor, QuotaDoor, TenantDoor, TokenDoor

router = SimpleRouter(trailing_slash=False)
router.register("tokens", TokenDoor, basename="token")
router.register("tenants", TenantDoor, basename="tenant")
router.register("quotas", QuotaDoor, basename="quota")

urlpatterns = [path("me", MeDoor.as_view({"get": "me"}), name="me"), *router.urls]
