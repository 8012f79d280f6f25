from django.urls import path

from portal.site import home, preferences

urlpatterns = [
    path("", home.home, name="home"),
    path("preferences/theme/", preferences.choose_theme, name="choose-theme"),
    path("preferences/language/", preferences.choose_language, name="choose-language"),
    path("preferences/cluster/", preferences.choose_cluster, name="choose-cluster"),
]
