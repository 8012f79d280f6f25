from tenants.models import User


def set_language(user: User, language: str) -> None:
    """Speak `language` (a code of settings.LANGUAGES) to `user`, on every device."""
    user.language = language
    user.save(update_fields=["language"])
