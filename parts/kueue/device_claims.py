"""GPUs that pods ask for by resource claims (resource.k8s.io) instead of by a resource's name.

A ResourceClaim, or the template of which each pod gets one of its own, asks for devices of classes. Counted
are devices of the classes that count as GPUs, where the claim says how many (`ExactCount`) or has been given
them; `All`, and `firstAvailable` of unlike requests, say it only once they are allocated. A claim that pods
name themselves is theirs together, and is counted once. (Kubernetes, "Dynamic Resource Allocation"; v1 and
v1beta2 say `exactly`, v1beta1 has the same fields in the request itself.)
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from parts.kueue.quantities import entries, part

Json = Mapping[str, Any]
# The forms that are understood, the newest first.
VERSIONS = ("v1", "v1beta2", "v1beta1")


class ClaimedGpus(NamedTuple):
    """GPUs that a pod claims for itself, those of claims that pods share, and claims that are not known."""

    of_pod: int
    shared: Mapping[str, int]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class DeviceClaims:
    """The claims and templates of a cluster by (namespace, name), and the device classes that are GPUs."""

    classes: Collection[str] = ()
    claims: Mapping[tuple[str, str], Json] = field(default_factory=dict)
    templates: Mapping[tuple[str, str], Json] = field(default_factory=dict)

    @classmethod
    def of(
        cls, classes: Collection[str], claims: Iterable[Json], templates: Iterable[Json]
    ) -> "DeviceClaims":
        """Return the claims of API objects."""
        return cls(classes, _by_name(claims), _by_name(templates))

    def asked_by(self, namespace: str, pod: Json) -> ClaimedGpus:
        """Return what a pod's spec asks for by claims."""
        of_pod, shared, unknown = 0, dict[str, int](), []
        for entry in entries(pod, "resourceClaims"):
            claim = str(entry.get("resourceClaimName") or "")
            template = str(entry.get("resourceClaimTemplateName") or "")
            gpus = self._of_claim((namespace, claim)) if claim else self._of_template((namespace, template))
            if gpus is None:
                unknown.append(claim or template)
            elif claim:
                shared[claim] = gpus
            else:
                of_pod += gpus
        return ClaimedGpus(of_pod, shared, tuple(unknown))

    def held_by(self, pod: Json, counted: set[tuple[str, str]]) -> int:
        """Return the GPUs of a pod's claims; those in `counted` are of other pods, and its own are added."""
        namespace, gpus = str(pod["metadata"]["namespace"]), 0
        made = {
            each["name"]: str(each.get("resourceClaimName") or "")
            for each in entries(pod, "status", "resourceClaimStatuses")
        }
        for entry in entries(pod, "spec", "resourceClaims"):
            claim = namespace, str(entry.get("resourceClaimName") or made.get(entry["name"]) or "")
            if claim in counted:
                continue
            held = self._of_claim(claim)
            if held is None:
                held = self._of_template((namespace, str(entry.get("resourceClaimTemplateName") or "")))
            elif held:
                counted.add(claim)
            gpus += held or 0
        return gpus

    def _of_claim(self, key: tuple[str, str]) -> int | None:
        claim = self.claims.get(key)
        if claim is None:
            return None
        given = entries(claim, "status", "allocation", "devices", "results")
        spec = part(claim, "spec")
        return _allocated(spec, given, self.classes) if given else self._asked(spec)

    def _of_template(self, key: tuple[str, str]) -> int | None:
        template = self.templates.get(key)
        return None if template is None else self._asked(part(template, "spec", "spec"))

    def _asked(self, spec: Json) -> int | None:
        counts = [
            _one_number(_alternatives(request), self.classes)
            for request in entries(spec, "devices", "requests")
        ]
        return None if None in counts else sum(count or 0 for count in counts)


def _by_name(objects: Iterable[Json]) -> dict[tuple[str, str], Json]:
    metadata = ((part(each, "metadata"), each) for each in objects)
    return {(str(names.get("namespace")), str(names.get("name"))): each for names, each in metadata}


def _alternatives(request: Json) -> Sequence[Json]:
    return entries(request, "firstAvailable") or [request.get("exactly") or request]


def _one_number(alternatives: Sequence[Json], classes: Collection[str]) -> int | None:
    """Return the GPUs of a request; None where its alternatives differ, or it takes all that there are."""
    counts: set[int | None] = set()
    for each in alternatives:
        # With adminAccess a pod looks at devices that others hold.
        if each.get("deviceClassName") not in classes or each.get("adminAccess"):
            counts.add(0)
        elif each.get("allocationMode", "ExactCount") == "ExactCount":
            counts.add(int(each.get("count") or 1))
        else:
            counts.add(None)
    return counts.pop() if len(counts) == 1 else None


def _allocated(spec: Json, results: Sequence[Json], classes: Collection[str]) -> int:
    """Return how many of the devices that a claim was given are GPUs; `REQUEST/ALTERNATIVE` names both."""
    gpus = set()
    for request in entries(spec, "devices", "requests"):
        for each in _alternatives(request):
            if each.get("deviceClassName") in classes:
                first = entries(request, "firstAvailable")
                gpus.add(f"{request['name']}/{each['name']}" if first else request["name"])
    return sum(each["request"] in gpus and not each.get("adminAccess") for each in results)
