from django.urls import path

from scheduling.web.layouts import editor, pages, rollouts

urlpatterns = [
    path("cluster/layouts/", pages.layouts, name="layouts"),
    path("cluster/layouts/new/", editor.new, name="layout-new"),
    path("cluster/layouts/of/<slug:layout>/", editor.edit, name="layout"),
    path("cluster/layouts/of/<slug:layout>/rollout/", rollouts.new, name="rollout-new"),
    path("cluster/rollouts/<int:rollout>/", rollouts.rollout_page, name="rollout"),
    path("cluster/rollouts/<int:rollout>/act/", rollouts.act, name="rollout-act"),
]
