from django.urls import path

from scheduling.web.operators import policy

urlpatterns = [
    path("admin/policies/", policy.policy_page, name="policies"),
    path("admin/policies/restore/", policy.restore, name="policy-restore"),
]
