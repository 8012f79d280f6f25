from django.urls import path

from tenants.web import inbox, sign_in, tokens

urlpatterns = [
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/link/<str:secret>/", sign_in.sign_in_by_link, name="sign-in-link"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/read/", inbox.read_all, name="inbox-read"),
    path("inbox/<int:notification>/", inbox.follow, name="notification"),
    path("profile/notifications/", inbox.choices, name="notification-choices"),
    path("profile/tokens/", tokens.tokens, name="tokens"),
    path("profile/tokens/<slug:prefix>/revoke/", tokens.token_revoke, name="token-revoke"),
]
