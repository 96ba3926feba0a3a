"""Comparison of an endpoint's answers about a block with those that were read, and of which endpoint each is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import structlog

from ..errors import Disagreement, NotAsked, RpcUnavailable
from .block import Block, block_of, block_request
from .endpoint import Endpoint
from .endpoints import Endpoints
from .recorded_reads import BLOCK, Note

_log = structlog.get_logger(__name__)

Unlike = tuple[str, Endpoint | None]
"""Words for what an endpoint contradicts, and the endpoint that has said that; None: most, in the look."""


WITHIN_S, MOST_S = 20.0, 160.0
"""Seconds after which a comparison in the midst of a round is given up, and those to which this is doubled where they
did not suffice: an honest endpoint may be slow, or a look long."""
SHORT_S, SHARE = 5.0, 4
"""Seconds that a comparison in the midst of a round may take as often as it is asked for; longer ones take one part of
so many of the time."""


class Hurry:
    """The time of comparisons for which moves wait. SAFETY: a stranger decides when they are asked for, who opens a
    match or pays for a request, and a slow endpoint how long they take. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._within_s, self._again_at = clock, WITHIN_S, float("-inf")

    @contextlib.contextmanager
    def within(self, hurried: bool) -> Iterator[Callable[[], bool]]:
        """Give what says that a comparison has taken too long; never, unless it is ``hurried``. Raises NotAsked if
        there is no time for it now."""
        began = self._clock()
        if hurried and began < self._again_at:
            raise NotAsked("endpoints were slow to compare what was read; they are asked again later")
        until = began + self._within_s if hurried else float("inf")
        try:
            yield lambda: self._clock() >= until
        finally:
            if hurried:
                took = self._clock() - began
                self._within_s = min(max(2 * took, WITHIN_S), MOST_S)
                self._again_at = began + (SHARE * took if took > SHORT_S else 0.0)


def read_block(endpoints: Endpoints, at: int | str) -> Block:
    """Return a block by its number or tag. Raises RpcUnavailable and RpcCorrupt."""
    return block_of(endpoints.make_request(BLOCK, block_request(at)), at)


def difference(
    endpoints: Endpoints,
    block: Block,
    notes: Sequence[Note],
    over: Callable[[], bool],
    distrust: Callable[[Endpoint, str], None],
) -> Unlike | None:
    """Return how the answers of this thread's endpoint differ, and from whose; None if they do not. Calls ``distrust``
    with whoever gives two answers, and why. Who does not stand by its answer, and has not the block any more or says
    nothing, is contradicted like who does, as long as this thread's endpoint has the block.

    Raises RpcUnavailable and RpcCorrupt; Disagreement where somebody gives two answers. ``over`` returns whether nobody
    waits for it any longer.
    """
    if (found := read_block(endpoints, block.number)) != block:
        return f"block {block.number} is {found}, not {block}", None
    for note in notes:
        if over():
            raise RpcUnavailable("compared too slowly")
        if _again(endpoints, note) == note:
            continue
        told, source = f"{note} has another answer at block {block.number}", note.source or endpoints.serving
        if _says_two(endpoints, block, note, source):
            # SAFETY: who lies once in a look, and then says the truth, would serve for ever; and what cannot wait would
            # go out on the lie, which nobody else shows.
            distrust(source, f"gives two answers about block {block.number}")
            raise Disagreement(f"{note} has another answer by now; it is read again", contradicted=True)
        # NOTE: a chain that moves meanwhile may have been read in the wrong state by either of them.
        if read_block(endpoints, block.number) != block:
            raise RpcUnavailable(f"block {block.number} was replaced meanwhile; it is read again")
        return told, source
    if read_block(endpoints, block.number).hash != block.hash:
        raise RpcUnavailable(f"block {block.number} was replaced meanwhile; it is read again")
    return None


def _says_two(endpoints: Endpoints, block: Block, note: Note, source: Endpoint) -> bool:
    """Return whether who has given an answer about a block gives another one now, at the same block.

    SAFETY: nobody takes a lie back by silence, or by having no such block any more: it would be contradicted never.
    """
    with endpoints.through(source):
        try:
            return _again(endpoints, note) != note and read_block(endpoints, block.number) == block
        except Exception as error:  # what it answers is its own fault, and not that of who asks
            _log.info("rpc.not_given_again", endpoint=source.name, note=str(note), reason=str(error))
            return False


def _again(endpoints: Endpoints, note: Note) -> Note:
    return Note.of(note.method, note.params, endpoints.make_request(note.method, note.params))
