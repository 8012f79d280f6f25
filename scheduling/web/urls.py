from django.urls import include, path

from scheduling.web import (
    arrays,
    bulk,
    change,
    cluster,
    extending,
    job,
    job_tabs,
    jobs,
    logs,
    new_job,
    queue,
)

urlpatterns = [
    path("jobs/", jobs.job_list, name="job-list"),
    path("jobs/act/", bulk.act_on_jobs, name="jobs-act"),
    path("jobs/views/", jobs.keep_view, name="job-views"),
    path("jobs/views/<int:view>/forget/", jobs.forget_view, name="job-view-forget"),
    path("jobs.csv", jobs.job_file, name="job-file"),
    path("jobs/new/", new_job.new_job, name="job-new"),
    path("jobs/<str:public_id>/", job.job_page, name="job"),
    path("jobs/<str:public_id>/logs/", logs.job_logs, name="job-logs"),
    path("jobs/<str:public_id>/logs/file/", logs.job_log_file, name="job-log-file"),
    path("jobs/<str:public_id>/events/", job_tabs.job_events, name="job-events"),
    path("jobs/<str:public_id>/spec/", job_tabs.job_spec, name="job-spec"),
    path("jobs/<str:public_id>/cancel/", job.job_cancel, name="job-cancel"),
    path("jobs/<str:public_id>/extend/", extending.job_extend, name="job-extend"),
    path("jobs/<str:public_id>/change/", change.job_change, name="job-change"),
    path("arrays/<str:array_id>/cancel/", arrays.array_cancel, name="array-cancel"),
    path("queue/", queue.queue, name="queue"),
    path("", include("scheduling.web.quota.urls")),
    path("", include("scheduling.web.operators.urls")),
    path("", include("scheduling.web.layouts.urls")),
    path("cluster/", cluster.cluster_map, name="cluster-map"),
    path("cluster/nodes/<str:name>/", cluster.node_page, name="node"),
]
