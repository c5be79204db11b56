"""What the cluster has, what is asked of it, and who waits."""

from __future__ import annotations

from gpuledger.core.spec import gauge
from gpuledger.metrics.catalog.pods import POD

NODE_RESOURCE = ("node", "resource")
QUOTA = ("namespace", "quota", "resource")
WARNING = ("namespace", "pod", "reason")

NODE_STOCK = (
    gauge(
        "node_info",
        ("node", "product", "sharing", "mig_strategy", "cards", "ready", "schedulable"),
        "What a node with GPUs is, by its labels, conditions and cordon, with value 1.",
        "API nodes",
    ),
    gauge(
        "node_cards",
        ("node", "product"),
        "GPUs that are plugged into the node, where its advertised units may be slices or shares of them.",
        "nvidia.com/gpu.count",
    ),
    gauge(
        "node_resource_capacity",
        NODE_RESOURCE,
        "Units of the resource that a node with GPUs has: devices, cores, bytes or places for pods.",
        "status.capacity",
    ),
    gauge(
        "node_resource_allocatable",
        NODE_RESOURCE,
        "Units that pods may get; of a GPU resource, what is missing from the capacity is unhealthy.",
        "status.allocatable",
    ),
    gauge(
        "node_resource_requested",
        NODE_RESOURCE,
        "Units that pods bound to the node ask for, by the scheduler's arithmetic.",
        "API pods",
    ),
    gauge(
        "node_resource_free",
        NODE_RESOURCE,
        "Allocatable units that no pod asks for; below 0 where devices fell ill under their pods.",
        "API nodes and pods",
    ),
    gauge(
        "node_resource_placeable",
        NODE_RESOURCE,
        "Most units that one new pod could get here: 0 on a cordoned, unready or full node.",
        "API nodes and pods",
    ),
)

ASKED = (
    gauge("pod_requested", (*POD, "resource"), "Units that the pod asks for, until it has ended.", "API pods"),
    gauge(
        "pod_pending_since_timestamp_seconds",
        ("namespace", "pod", "workload_kind", "workload", "reason"),
        "Unix time since which a pod that asks for a GPU has been waiting for a node, and why.",
        "API pods",
    ),
    gauge("quota_hard", QUOTA, "GPUs that pods of the namespace may ask for.", "API resourcequotas"),
    gauge(
        "quota_used",
        QUOTA,
        "GPUs that pods of the namespace ask for, as the quota counts: pending pods too, ended ones not.",
        "API resourcequotas",
    ),
)

DRA = (
    gauge(
        "dra_pool_devices",
        ("node", "driver", "pool"),
        "Devices that a DRA driver offers; where it offers partitions of each other, not all fit at once.",
        "API resourceslices",
    ),
    gauge(
        "dra_pool_allocated",
        ("driver", "pool"),
        "Devices of the pool that claims hold, each counted once however many pods share it.",
        "API resourceclaims",
    ),
    gauge(
        "claim_devices",
        ("namespace", "claim", "device_class", "state"),
        "GPUs that a claim holds (state allocated), or asks for before it is allocated (state waiting).",
        "API resourceclaims, deviceclasses",
    ),
    gauge(
        "claim_unresolved",
        ("namespace", "claim"),
        "1 while nothing tells how many GPUs a claim is for: it asks for all, or by a class that does not say.",
        "API resourceclaims, deviceclasses",
    ),
)

WARNINGS = (
    gauge(
        "pod_warning_events",
        WARNING,
        "Warnings of one reason about a pod that asks for a GPU, as long as the API keeps them.",
        "API events",
    ),
    gauge(
        "pod_warning_last_timestamp_seconds",
        WARNING,
        "Unix time of the last warning of that reason.",
        "API events",
    ),
)
