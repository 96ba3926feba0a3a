"""Whether an endpoint's answers about a block differ from those that were read, and from whose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ..errors import RpcUnavailable
from .block import Block, block_of, block_request
from .endpoint import Endpoint
from .endpoints import Endpoints
from .notes import BLOCK, Note

Unlike = tuple[str, Endpoint | None]
"""What an endpoint contradicts, in words, and the endpoint that has said it; None: most, in the look."""


def read_block(endpoints: Endpoints, at: int | str) -> Block:
    """Return a block by its number or tag. Raises RpcUnavailable and RpcCorrupt."""
    return block_of(endpoints.make_request(BLOCK, block_request(at)), at)


def difference(
    endpoints: Endpoints,
    block: Block,
    notes: Sequence[Note],
    over: threading.Event,
    distrust: Callable[[Endpoint, str], None],
) -> Unlike | None:
    """Return how the answers of this thread's endpoint differ, and from whose; None if they do not. Calls ``distrust``
    with whoever gives two answers, and why.

    Raises RpcUnavailable and RpcCorrupt. Nobody waits for it any longer once it is ``over``.
    """
    if (found := read_block(endpoints, block.number)) != block:
        return f"block {block.number} is {found}, not {block}", None
    for note in notes:
        if over.is_set():
            raise RpcUnavailable("compared too slowly")
        if _again(endpoints, note) == note:
            continue
        # NOTE: a chain that moves meanwhile may have been read in the wrong state by either of them.
        with endpoints.through(source := note.source or endpoints.serving):
            if _again(endpoints, note) != note:
                # SAFETY: who lies once in a look, and then says the truth, would serve for ever.
                if read_block(endpoints, block.number) == block:
                    distrust(source, f"gives two answers about block {block.number}")
                raise RpcUnavailable(f"{note} has another answer by now; it is read again")
        return f"{note} has another answer at block {block.number}", source
    if read_block(endpoints, block.number).hash != block.hash:
        raise RpcUnavailable(f"block {block.number} was replaced meanwhile; it is read again")
    return None


def _again(endpoints: Endpoints, note: Note) -> Note:
    return Note.of(note.method, note.params, endpoints.make_request(note.method, note.params))
