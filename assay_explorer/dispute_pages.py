"""The page of a dispute: its ladder, now or at any of its moments."""

from __future__ import annotations

from trainer_node.client.parties import Parties

from . import drawing
from .chain import Case, Look
from .disputed import Disputed
from .history import Moment, clocks, moments, next_after, offered
from .ladder import ladder
from .rendering import NotThere


class DisputePages(Disputed):
    """A dispute, and what leads to its moments."""

    def dispute(self, number: int, match: str, at: int | None = None) -> str:
        """The ladder of one dispute, now or at a block."""

        def make(look: Look) -> str:
            case = self.case(look, number, match)
            parties = Parties(case.job)
            all_ = moments(case)
            so_far = [one for one in all_ if at is None or one.sent.block <= at]
            if not so_far:
                raise NotThere(f"the dispute began in block {all_[0].sent.block}, after block {at}")
            return self._dispute(look, case, parties, all_, so_far, at)

        return self._chain.reading(make)

    def _dispute(
        self,
        look: Look,
        case: Case,
        parties: Parties,
        all_: list[Moment],
        so_far: list[Moment],
        at: int | None,
    ) -> str:
        found = ladder(case, so_far, parties.name)
        last = ladder(case, all_, parties.name) if len(so_far) < len(all_) else found
        ended = last.losers is not None and (case.hearing is None or case.hearing.over)
        clock = clocks(case, so_far[-1], None if at is not None or ended else look.now)
        rungs = [
            {
                "rung": rung,
                "number": k,
                "strip": drawing.strip(rung.strip, f"s{k}") if rung.strip is not None else None,
                "link": self._place.part(case.job.id, case.id, rung.page) if rung.page else None,
            }
            for k, rung in enumerate(found.rungs, 1)
        ]
        return self._render(
            "dispute.html",
            f"Dispute in job {case.job.id}",
            live=None if at is not None or self._place.static else self._place.dispute(case.job.id, case.id),
            look=look,
            case=case,
            job=case.job,
            parties=parties,
            ladder=found,
            summary=self._summary(case, found, parties),
            rungs=rungs,
            overview=drawing.overview(found),
            drawn={
                word for rung in found.rungs if rung.strip for word in (rung.strip.unit, *rung.strip.kinds)
            },
            clock=clock,
            moments=offered(all_),
            now=so_far[-1],
            before=all_[len(so_far) - 2] if len(so_far) > 1 else None,
            after=next_after(all_, so_far[-1]),
            at=at,
            total=len(all_),
        )

    def first_match(self, number: int) -> str:
        """Return the id of a job's first match. Raises NotThere if it has none."""

        def make(look: Look) -> str:
            found = look.matches(look.job(number))
            if not found:
                raise NotThere(f"job {number} has no dispute")
            return f"{found[0]:#066x}"

        return self._chain.reading(make)

    def blocks(self, number: int, match: str) -> list[int]:
        """Return the blocks of a dispute's moments."""

        def make(look: Look) -> list[int]:
            return [one.sent.block for one in offered(moments(self.case(look, number, match)))]

        return self._chain.reading(make)
