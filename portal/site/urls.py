from django.urls import path

from portal.site import audit, demo, error_help, home, personas, preferences, search, system

urlpatterns = [
    path("", home.home, name="home"),
    path("admin/audit/", audit.audit_page, name="audit"),
    path("admin/system/", system.system_page, name="system"),
    path("admin/system/mail/", system.test_mail, name="test-mail"),
    path("demo/act-as/", personas.act_as, name="act-as"),
    path("demo/", demo.demo_page, name="demo"),
    path("demo/speed/", demo.demo_speed, name="demo-speed"),
    path("demo/anew/", demo.demo_anew, name="demo-anew"),
    path("search/", search.search, name="search"),
    path("help/errors", error_help.errors, name="help-errors"),
    path("help/errors/<slug:error_code>", error_help.error, name="help-error"),
    path("preferences/theme/", preferences.choose_theme, name="choose-theme"),
    path("preferences/language/", preferences.choose_language, name="choose-language"),
    path("preferences/cluster/", preferences.choose_cluster, name="choose-cluster"),
]
