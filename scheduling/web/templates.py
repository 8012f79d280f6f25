"""What people often run, to begin a new job from."""

from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

PYTORCH = "pytorch/pytorch:2.8.0-cuda12.9-cudnn9-runtime"


@dataclass(frozen=True, slots=True)
class Template:
    """Values for the form's fields by name; `says` what it is for, and what to change."""

    label: Promise
    says: Promise
    initial: dict[str, Any]


TEMPLATES: dict[str, Template] = {
    "pytorch-ddp": Template(
        _("PyTorch DDP"),
        _("Several nodes train one model; torchrun finds the others by itself."),
        {
            "name": "ddp",
            "members": 2,
            "gpus_per_member": 8,
            "image": PYTORCH,
            "command": "torchrun train.py",
            "environment": "NCCL_DEBUG=WARN",
            "max_hours": 24,
        },
    ),
    "fine-tune": Template(
        _("Fine-tuning"),
        _("One node goes on training a model that is there."),
        {
            "name": "fine-tune",
            "members": 1,
            "gpus_per_member": 4,
            "image": PYTORCH,
            "command": "torchrun finetune.py --model /data/model --output /data/tuned",
            "max_hours": 8,
        },
    ),
    "notebook": Template(
        _("Notebook"),
        _("One GPU for an afternoon; reach it by kubectl port-forward, on port 8888 of its pod."),
        {
            "name": "notebook",
            "members": 1,
            "gpus_per_member": 1,
            "image": PYTORCH,
            "command": "sh -c 'pip install jupyterlab && jupyter lab --ip=0.0.0.0 --allow-root'",
            "max_hours": 4,
        },
    ),
    "batch-inference": Template(
        _("Batch inference"),
        _("Equal members share the input: each is told its number and how many there are."),
        {
            "name": "inference",
            "members": 4,
            "gpus_per_member": 1,
            "image": PYTORCH,
            "command": "python infer.py --shard $(RANK) --of $(WORLD_SIZE)",
            "max_hours": 2,
        },
    ),
}
