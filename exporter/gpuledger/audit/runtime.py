"""What only the node role can find, while pods run: the same catalogue, so that ids and texts are the same."""

from __future__ import annotations

from functools import partial

from gpuledger.audit.check import Check, Severity

_DOCS = ("https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",)

_declare = partial(Check, references=_DOCS, at_runtime=True)

RUNTIME_CHECKS = (
    _declare(
        "rt-use-without-request",
        Severity.CRITICAL,
        title="GPU used without an allocation",
        flags="a process on a GPU whose container has no allocated device and no claim",
        why="The container went past the device plugin: somebody else's GPU is used, and no quota shows it.",
        remediation="Find its way to the GPU (environment, mount, annotation, privilege) by the other checks.",
    ),
    _declare(
        "rt-use-wrong-device",
        Severity.CRITICAL,
        title="another GPU used than allocated",
        flags="a process on a GPU that is not among its container's devices",
        why="The container uses a GPU that the scheduler gave to somebody else, or to nobody.",
        remediation="Look for NVIDIA_VISIBLE_DEVICES in its manifest and image, and for privilege.",
    ),
    _declare(
        "rt-host-process",
        Severity.HIGH,
        title="GPU used by a host process",
        flags="a process on a GPU in no pod's cgroup, other than the driver's own services",
        why="It runs past Kubernetes: a login on the node, a container of another runtime, or an intruder.",
        remediation="Look at the process, its unit and its parent on the node.",
    ),
    _declare(
        "rt-orphan",
        Severity.HIGH,
        title="GPU used by a pod that is gone",
        flags="a process on a GPU in the cgroup of a pod that the API does not know, or that has ended",
        why="The scheduler gives the GPU away while it is still in use: the next pod finds its memory taken.",
        remediation="Look for an unkillable process (state D), and restart the node if it does not go.",
    ),
    _declare(
        "rt-ghost",
        Severity.HIGH,
        title="busy GPU without a process",
        flags="high utilisation or memory use without any visible process",
        why="Something uses the GPU and can't be seen from here, or the driver lost track of what ended.",
        remediation="Compare with nvidia-smi on the node; reset the GPU once nothing needs it.",
    ),
    _declare(
        "rt-idle",
        Severity.MEDIUM,
        title="idle GPU",
        flags="a device that is allocated for longer than the window, with no utilisation and no process",
        why="The GPU is paid for and kept from others, and nobody uses it.",
        remediation="Ask the owner, or let a policy end such pods.",
    ),
    _declare(
        "rt-idle-holding-memory",
        Severity.LOW,
        title="idle GPU that holds memory",
        flags="an allocated device with no utilisation in the window and a process that holds memory",
        why="A warm server that waits for requests looks the same as a forgotten notebook.",
        remediation="Ask the owner; consider scale to zero, or a shared or partitioned GPU.",
    ),
    _declare(
        "rt-over-share",
        Severity.MEDIUM,
        title="more GPU memory than the share",
        flags="GPU memory above nvidia.com/gpumem (HAMi) or gpu-fraction (KAI)",
        why="The other pods on the card run out of memory although they keep to their shares.",
        remediation="Limit the framework's memory, or raise the share.",
    ),
    _declare(
        "rt-alloc-drift",
        Severity.MEDIUM,
        title="allocation unlike the request",
        flags="devices that the kubelet allocated, unlike the pod's effective request",
        why="The kubelet's book and the scheduler's differ: GPUs are lost or given twice.",
        remediation="Restart the device plugin; drain the node if the difference stays.",
    ),
)
