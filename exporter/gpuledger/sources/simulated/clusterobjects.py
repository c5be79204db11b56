"""The simulated cluster's other objects as the API's JSON: nodes, namespaces, quotas, devices and claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gpuledger.sources.simulated.cast import NAMESPACES, QUOTAS
from gpuledger.sources.simulated.hardware import MACHINES
from gpuledger.sources.simulated.identity import Identities
from gpuledger.sources.simulated.podobjects import Object
from gpuledger.sources.simulated.population import Life, Population

DRIVER = "gpu.nvidia.com"
"""NVIDIA's DRA driver for GPUs, and the class of its devices."""
_LARGE = "large-memory"
_HOST = {"cpu": "128", "memory": "1Ti", "pods": "110"}


def node_objects(population: Population) -> Iterator[Object]:
    """The nodes; the one without driver is cordoned, and its device plugin offers nothing."""
    for machine in population.machines:
        offers = {name: str(count) for name, count in machine.offers.items()}
        usable = offers if machine.driver else dict.fromkeys(offers, "0")
        labels = {
            "kubernetes.io/hostname": machine.name,
            "nvidia.com/gpu.product": machine.model.product,
            "nvidia.com/gpu.count": str(machine.gpus),
            "nvidia.com/gpu.sharing-strategy": "time-slicing" if machine.shares else "none",
            "nvidia.com/mig.strategy": "mixed" if machine.mig else "single",
        }
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": machine.name,
                "uid": population.identities.uuid("node", machine.name),
                "labels": labels,
            },
            "spec": {} if machine.driver else {"unschedulable": True},
            "status": {
                "capacity": {**_HOST, **offers},
                "allocatable": {**_HOST, **usable},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }


def namespace_objects(identities: Identities) -> Iterator[Object]:
    """The namespaces."""
    for name in NAMESPACES:
        meta = {"name": name, "uid": identities.uuid("namespace", name)}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def quota_objects(identities: Identities, lives: Iterable[Life]) -> Iterator[Object]:
    """The quotas, with what is used of them."""
    used: Counter[tuple[str, str]] = Counter()
    for life in lives:
        for resource, count in life.tenant.asks.items():
            used[life.tenant.namespace, resource] += 0 if life.over else count
    for namespace, limits in QUOTAS.items():
        hard = {f"requests.{resource}": str(count) for resource, count in limits.items()}
        spent = {f"requests.{resource}": str(used[namespace, resource]) for resource in limits}
        yield {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "gpus", "namespace": namespace, "uid": identities.uuid("quota", namespace)},
            "spec": {"hard": hard},
            "status": {"hard": hard, "used": spent},
        }


def slice_objects(identities: Identities) -> Iterator[Object]:
    """What the DRA driver offers."""
    for machine in MACHINES:
        if machine.by_claim:
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {
                    "name": f"{machine.name}-{DRIVER}",
                    "uid": identities.uuid("slice", machine.name),
                },
                "spec": {
                    "driver": DRIVER,
                    "nodeName": machine.name,
                    "pool": {"name": machine.name, "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": f"gpu-{index}"} for index in range(machine.gpus)],
                },
            }


def class_objects(identities: Identities) -> Iterator[Object]:
    """The driver's class, which stands in for `nvidia.com/gpu`, and one that does not say whose it has."""
    own = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    large = f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('90Gi'))"
    bridge = {"extendedResourceName": "nvidia.com/gpu"}
    for name, expression, more in ((DRIVER, own, bridge), (_LARGE, large, {})):
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name, "uid": identities.uuid("class", name)},
            "spec": {"selectors": [{"cel": {"expression": expression}}], **more},
        }


def claim_objects(population: Population) -> Iterator[Object]:
    """The claims of tenants, each once though pods share it; that of one who waits is not allocated."""
    for tenant in {tenant.claim: tenant for _, tenant in population.tenants if tenant.claim}.values():
        wanted, count = (DRIVER, 1) if tenant.node else (_LARGE, 2)
        request = {"name": "gpu", "exactly": {"deviceClassName": wanted, "count": count}}
        devices = [
            {"request": "gpu", "driver": DRIVER, "pool": tenant.node, "device": f"gpu-{place.gpu}"}
            for place in tenant.places
        ]
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": tenant.claim,
                "namespace": tenant.namespace,
                "uid": population.identities.uuid("claim", tenant.namespace, tenant.claim),
            },
            "spec": {"devices": {"requests": [request]}},
            "status": {"allocation": {"devices": {"results": devices}}} if devices else {},
        }
