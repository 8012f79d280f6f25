"""What the API server refuses in Jobs, at birth and later."""

from simcluster.errors import Cause, immutable_field, invalid_field, required_field
from simcluster.jobpods import are_ranges
from simcluster.objects import Obj, clone, has_condition
from simcluster.validate import frozen_causes, pod_spec_causes

_FROZEN = (
    "completionMode",
    "selector",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "manualSelector",
    "podReplacementPolicy",
)
# Of the template of a suspended Job, what may change.
_DIRECTIVES = ("nodeSelector", "tolerations", "affinity", "schedulingGates")


def new_job_causes(job: Obj) -> list[Cause]:
    """What is wrong with a Job that is to be created."""
    spec = job["spec"]
    causes = _count_causes(spec)
    template = spec.get("template") or {}
    if not isinstance(template.get("spec"), dict):
        return [*causes, required_field("spec.template.spec")]
    causes += pod_spec_causes(template["spec"], "spec.template.spec")
    policy = template["spec"].get("restartPolicy")
    if policy == "Always":
        text = 'supported values: "OnFailure", "Never"'
        field = "spec.template.spec.restartPolicy"
        causes.append(Cause(field, "Unsupported value", text, policy))
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        causes.append(required_field("spec.completions", "when completion mode is Indexed"))
    if spec.get("podFailurePolicy") and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        causes.append(invalid_field("spec.template.spec.restartPolicy", policy, text))
    return causes


def _count_causes(spec: Obj) -> list[Cause]:
    names = (
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    )
    return [
        invalid_field(f"spec.{name}", spec[name], "must be greater than or equal to 0")
        for name in names
        if spec.get(name) is not None
        and (type(spec[name]) is not int or not 0 <= spec[name] < 2**31)
    ]


def job_status_causes(job: Obj) -> list[Cause]:
    """What is wrong with a status that somebody wrote."""
    status, limit = job["status"], job["spec"].get("completions") or 0
    return [
        invalid_field(f"status.{name}", status[name], "must be indexes of this Job, as 0-2,5")
        for name in ("completedIndexes", "failedIndexes")
        if not are_ranges(status.get(name, ""), limit)
    ]


def job_update_causes(new: Obj, old: Obj) -> list[Cause]:
    """What an update may not do to a Job; a suspended one that runs nothing may be re-aimed."""
    causes = new_job_causes(new)
    if causes:
        return causes
    causes = frozen_causes(new["spec"], old["spec"], fields=_FROZEN, at="spec")
    causes += _completions_causes(new["spec"], old["spec"])
    allowed = clone(old["spec"]["template"])
    template = new["spec"]["template"]
    if is_open(old):
        _allow_directives(allowed, template)
    if _normal(allowed) != _normal(template):
        causes.append(immutable_field("spec.template", "{...}"))
    return causes


def is_open(job: Obj) -> bool:
    """True while a Job's template may be changed: suspended, and the pods of before gone."""
    if not job["spec"].get("suspend"):
        return False
    status = job.get("status") or {}
    return not status.get("startTime") or has_condition(job, "Suspended")


def _completions_causes(new: Obj, old: Obj) -> list[Cause]:
    """Completions may follow parallelism in an Indexed Job, and never change otherwise."""
    if new.get("completions") == old.get("completions"):
        return []
    together = new.get("completions") == new.get("parallelism")
    if old.get("completionMode") == "Indexed" and together:
        return []
    return [immutable_field("spec.completions", new.get("completions"))]


def _allow_directives(allowed: Obj, template: Obj) -> None:
    metadata, other = allowed.setdefault("metadata", {}), template.get("metadata") or {}
    for name in ("labels", "annotations"):
        metadata[name] = other.get(name)
    for name in _DIRECTIVES:
        allowed["spec"][name] = template["spec"].get(name)
    for part in ("containers", "initContainers"):
        olds, news = allowed["spec"].get(part) or [], template["spec"].get(part) or []
        if len(olds) == len(news):
            for container, wanted in zip(olds, news, strict=True):
                container["resources"] = wanted.get("resources")


def _normal(template: Obj) -> Obj:
    """A template without the empty fields that mean the same as none."""
    empty: tuple[object, ...] = ([], {}, None, "")
    return {
        part: {
            key: value for key, value in (template.get(part) or {}).items() if value not in empty
        }
        for part in ("metadata", "spec")
    }
