from django.urls import path

from tenants.web import sign_in, tokens

urlpatterns = [
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/link/<str:secret>/", sign_in.sign_in_by_link, name="sign-in-link"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("profile/tokens/", tokens.tokens, name="tokens"),
    path("profile/tokens/<slug:prefix>/revoke/", tokens.token_revoke, name="token-revoke"),
]
