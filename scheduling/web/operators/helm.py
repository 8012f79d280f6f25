"""The GPU Operator's Helm values for what an operator ticks; nothing is kept."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from portal.core.web import signed_in
from tenants.access import require_operator
from topology.layouts.node import MigStrategy
from topology.layouts.operator_values import OperatorChoice, write_operator_values
from topology.models import Cluster

FILE_NAME = "gpu-operator-values.yaml"
_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"


class ChoiceForm(forms.Form):
    driver = forms.BooleanField(label=gettext_lazy("Install the driver"), required=False)
    toolkit = forms.BooleanField(
        label=gettext_lazy("Install the container toolkit"), required=False
    )
    feature_discovery = forms.BooleanField(
        label=gettext_lazy("Install Node Feature Discovery"), required=False
    )
    dcgm_exporter = forms.BooleanField(label=gettext_lazy("Measure with DCGM"), required=False)
    rdma = forms.BooleanField(label=gettext_lazy("GPUDirect RDMA"), required=False)
    host_mofed = forms.BooleanField(
        label=gettext_lazy("The network driver is installed on the machines"), required=False
    )
    mig_strategy = forms.ChoiceField(
        label=gettext_lazy("MIG strategy"),
        choices=[(strategy.value, strategy.value) for strategy in MigStrategy],
    )
    mig_config_map = forms.RegexField(
        _NAME,
        label=gettext_lazy("ConfigMap with MIG layouts"),
        required=False,
        help_text=gettext_lazy("Empty for those that the chart brings."),
    )
    mig_default = forms.CharField(
        label=gettext_lazy("MIG layout of nodes without a label"), max_length=63, required=False
    )
    plugin_config_map = forms.RegexField(
        _NAME, label=gettext_lazy("ConfigMap of the device plugin"), required=False
    )
    plugin_default = forms.CharField(
        label=gettext_lazy("Its entry for nodes without a label"), max_length=63, required=False
    )

    def choice(self) -> OperatorChoice:
        said = {**self.cleaned_data, "mig_strategy": MigStrategy(self.cleaned_data["mig_strategy"])}
        return OperatorChoice(**said)


@require_safe
@signed_in
def operator_values(request: HttpRequest, cluster: str) -> HttpResponse:
    """The form with the values beneath it, or with `file` the values alone."""
    require_operator(request.user)
    row = get_object_or_404(Cluster, slug=cluster)
    form = ChoiceForm(request.GET if "mig_strategy" in request.GET else proposed(row))
    values = write_operator_values(form.choice()) if form.is_valid() else ""
    if values and "file" in request.GET:
        named = {"Content-Disposition": f'attachment; filename="{FILE_NAME}"'}
        return HttpResponse(values, content_type="application/yaml", headers=named)
    shown = {"of": row, "form": form, "values": values, "file_name": FILE_NAME}
    return render(request, "scheduling/operator_values.html", shown, status=200 if values else 422)


def proposed(cluster: Cluster) -> dict[str, Any]:
    """What fits what the cluster has: what is there already is not installed a second time."""
    check = getattr(cluster, "check_seen", None)
    there = {part["key"] for part in check.parts if part["is_there"]} if check else set()
    managed = "gpu_operator" in there
    own = OperatorChoice()
    return {
        "driver": managed or "driver" not in there,
        "toolkit": managed or "toolkit" not in there,
        "feature_discovery": own.feature_discovery,
        "dcgm_exporter": managed or "dcgm_exporter" not in there,
        "mig_strategy": own.mig_strategy.value,
        "mig_default": own.mig_default,
    }
