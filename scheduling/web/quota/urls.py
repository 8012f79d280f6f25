from django.urls import path

from scheduling.web.quota import caps, invitations, memberships, operators, overview, page, requests

urlpatterns = [
    path("quota/", overview.quota, name="quota"),
    path("quota/requests/", requests.request_list, name="quota-requests"),
    path("quota/requests/new/", requests.new_request, name="quota-request-new"),
    path("quota/requests/<int:number>/", page.request_page, name="quota-request"),
    path("quota/requests/<int:number>/act/", page.act_on_request, name="quota-request-act"),
    path("quota/requests/<int:number>/edit/", requests.edit_request, name="quota-request-edit"),
    path("cluster/calendar/", operators.calendar, name="calendar"),
    path("admin/approvals/", operators.approvals, name="approvals"),
    path("admin/approvals/together/", operators.approve_chosen, name="approve-together"),
    path("tenants/<slug:slug>/", overview.tenant_page, name="tenant"),
    path("tenants/<slug:slug>/invitations/", invitations.invitations, name="invitations"),
    path(
        "tenants/<slug:slug>/invitations/<int:invited>/resend/",
        invitations.send_again,
        name="invitation-resend",
    ),
    path(
        "tenants/<slug:slug>/invitations/<int:invited>/withdraw/",
        invitations.take_back,
        name="invitation-withdraw",
    ),
    path("tenants/<slug:slug>/memberships/", memberships.memberships, name="memberships"),
    path(
        "tenants/<slug:slug>/memberships/<str:username>/role/",
        memberships.change_role,
        name="membership-role",
    ),
    path("tenants/<slug:slug>/memberships/<str:username>/caps/", caps.caps, name="membership-caps"),
    path(
        "tenants/<slug:slug>/memberships/<str:username>/remove/",
        memberships.remove,
        name="membership-remove",
    ),
]
