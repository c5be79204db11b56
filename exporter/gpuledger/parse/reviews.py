"""TokenReview and SubjectAccessReview: whose token it is, and whether they may read a path.

Source: Kubernetes API reference, authentication.k8s.io/v1 and authorization.k8s.io/v1.
"""

from __future__ import annotations

import msgspec

from gpuledger.core.reviews import User
from gpuledger.parse.kubelist import decode_answer


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus


_TOKEN_REVIEW = msgspec.json.Decoder(_TokenReview)
_ACCESS_REVIEW = msgspec.json.Decoder(_AccessReview)


def render_token_review(token: str) -> bytes:
    """The question whose token it is."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    return msgspec.json.encode(review)


def parse_token_review(body: bytes) -> User | None:
    """The user, or None where the token is no good; raises ValueError for what is no answer."""
    status = decode_answer(_TOKEN_REVIEW, body).status
    user = status.user
    if not (status.authenticated and user.username):
        return None
    return User(user.username, user.uid, user.groups or (), user.extra or {})


def render_access_review(user: User, path: str) -> bytes:
    """The question whether the user may get a path that is no resource."""
    spec = {
        "user": user.name,
        "uid": user.uid,
        "groups": user.groups,
        "extra": dict(user.extra),
        "nonResourceAttributes": {"path": path, "verb": "get"},
    }
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return msgspec.json.encode(review)


def parse_access_review(body: bytes) -> bool:
    """Whether they may; raises ValueError for what is no answer."""
    return decode_answer(_ACCESS_REVIEW, body).status.allowed
