from django.urls import path

from tenants.web import acting, announcements, inbox, invitations, password, sign_in, tokens, users, webhooks

urlpatterns = [
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/link/<str:secret>/", sign_in.sign_in_by_link, name="sign-in-link"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("invitation/<str:secret>/", invitations.invitation, name="invitation"),
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/read/", inbox.read_all, name="inbox-read"),
    path("inbox/<int:notification>/", inbox.follow, name="notification"),
    path("admin/announcements/", announcements.announcements, name="announcements"),
    path("admin/announcements/new/", announcements.new, name="announcement-new"),
    path("admin/announcements/<int:announcement>/", announcements.edit, name="announcement"),
    path("admin/announcements/<int:announcement>/end/", announcements.end, name="announcement-end"),
    path(
        "announcements/<int:announcement>/dismiss/",
        announcements.dismiss,
        name="announcement-dismiss",
    ),
    path("profile/notifications/", inbox.choices, name="notification-choices"),
    path("admin/users/", users.users, name="users"),
    path("admin/users/new/", users.new, name="user-new"),
    path("admin/users/of/<str:account>/", users.user_page, name="user"),
    path("admin/users/of/<str:account>/link/", users.user_link, name="user-link"),
    path("admin/users/of/<str:account>/active/", users.user_active, name="user-active"),
    path("admin/users/of/<str:account>/act/", acting.begin, name="acting-begin"),
    path("acting/end/", acting.end, name="acting-end"),
    path("profile/password/", password.password, name="password"),
    path("profile/webhooks/", webhooks.own_webhooks, name="webhooks"),
    path("profile/webhooks/<int:webhook>/act/", webhooks.act_on_own, name="webhook-act"),
    path("tenants/<slug:slug>/webhooks/", webhooks.tenant_webhooks, name="tenant-webhooks"),
    path(
        "tenants/<slug:slug>/webhooks/<int:hook>/act/",
        webhooks.act_on_tenants,
        name="tenant-webhook-act",
    ),
    path("profile/tokens/", tokens.tokens, name="tokens"),
    path("profile/tokens/<slug:prefix>/revoke/", tokens.token_revoke, name="token-revoke"),
]
