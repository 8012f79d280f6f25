"""What a failed pod means for its Job: its podFailurePolicy, rule by rule."""

from simcluster.objects import Obj, name_of, namespace_of

COUNT, IGNORE, FAIL_JOB, FAIL_INDEX = "Count", "Ignore", "FailJob", "FailIndex"


def judge(job: Obj, pod: Obj) -> tuple[str, str]:
    """The action of the first rule that a failed pod meets, and why; Count when none does."""
    policy = job["spec"].get("podFailurePolicy") or {}
    for number, rule in enumerate(policy.get("rules") or []):
        why = _matches(rule, pod)
        if why:
            return str(rule["action"]), f"{why} matching {rule['action']} rule at index {number}"
    return COUNT, ""


def _matches(rule: Obj, pod: Obj) -> str:
    if rule.get("onExitCodes"):
        return _matches_exit_code(rule["onExitCodes"], pod)
    return _matches_condition(rule.get("onPodConditions") or [], pod)


def _matches_exit_code(wanted: Obj, pod: Obj) -> str:
    for own in pod.get("status", {}).get("containerStatuses") or []:
        code = (own["state"].get("terminated") or {}).get("exitCode", 0)
        if code == 0 or wanted.get("containerName") not in {None, own["name"]}:
            continue
        if (code in wanted["values"]) == (wanted["operator"] == "In"):
            where = f"{namespace_of(pod)}/{name_of(pod)}"
            return f"Container {own['name']} for pod {where} failed with exit code {code}"
    return ""


def _matches_condition(patterns: list[Obj], pod: Obj) -> str:
    for condition in pod.get("status", {}).get("conditions") or []:
        for pattern in patterns:
            same_type = pattern["type"] == condition["type"]
            if same_type and pattern.get("status", "True") == condition["status"]:
                where = f"{namespace_of(pod)}/{name_of(pod)}"
                return f"Pod {where} has condition {condition['type']}"
    return ""
