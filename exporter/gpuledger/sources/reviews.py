"""The Kubernetes API asked whose a token is, and what they may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpuledger.parse.reviews import (
    parse_access_review,
    parse_token_review,
    render_access_review,
    render_token_review,
)
from gpuledger.sources.kubehttp import ApiError, Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuledger.core.reviews import User

T = TypeVar("T")

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_SECONDS = 3.0
_UNAUTHORIZED = 401


class ReviewSource:
    """Asks for both reviews, from one thread; another may hang up. Needs `create` on both kinds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def user_of(self, token: str) -> User | None:
        """Whose token it is, None for one that is no good. Raises SourceError where the API can't tell."""
        return self._ask(TOKEN_REVIEWS, render_token_review(token), parse_token_review)

    def may_get(self, user: User, path: str) -> bool:
        """Whether the user may get the path `path`, which is no resource. Raises SourceError likewise."""
        return self._ask(ACCESS_REVIEWS, render_access_review(user, path), parse_access_review)

    def hang_up(self) -> None:
        """End what is being asked, and ask nothing more."""
        self._connection.hang_up()

    def _ask(self, path: str, review: bytes, parse: Callable[[bytes], T]) -> T:
        try:
            with self._connection.post(path, review, seconds=_SECONDS) as answer:
                return parse(answer.body())
        except ApiError as error:
            if error.status == _UNAUTHORIZED:
                self._connection.renew()  # for the next question
            raise
        except ValueError as error:
            raise ApiError(f"POST {path}: {error}") from error
