"""A small Kubernetes for demonstrations and tests: `python -m simcluster`.

It speaks the part of the Kubernetes API that Muster uses, over HTTP, with a scheduler, a Job
controller and kubelets on a clock that can be sped up, frozen and stepped.
"""
