"""Pages that find things: what is known of a hash, and what an account has done in all jobs."""

from __future__ import annotations

import re
from typing import Any

from referee_py.errors import AssayError
from referee_py.params import BURNED
from referee_py.walk.reason import Reason
from referee_py.walk.sides import sides
from trainer_node.client.parties import Parties

from .chain import Look
from .desk import Desk
from .finding import LEAST_DIGITS, digits_of, hits, jobs_of
from .job_words import phase
from .money import flow
from .rendering import NotThere

PER_PAGE, MAX_HITS = 20, 50
_ADDRESS = re.compile(r"0x[0-9a-f]{40}")


class AccountPages(Desk):
    """Search, and a page for each account."""

    def find(self, text: str) -> tuple[str | None, str]:
        """Return where a search leads, if it can mean one page only; and the page of all that was found."""

        def make(look: Look) -> tuple[str | None, str]:
            asked = text.strip()[:100]
            number = asked.lower().removeprefix("job").strip(" #")
            if number.isascii() and number.isdigit() and 0 < int(number) <= look.snapshot.job_count():
                return self._place.job(int(number)), ""
            digits = digits_of(asked)
            if digits is not None and len(digits) == 40:
                return self._place.account(f"0x{digits}"), ""
            found = [] if digits is None else hits(look, digits)
            page = self._render(
                "find.html",
                "Search",
                look=look,
                asked=asked,
                digits=digits,
                hits=found[:MAX_HITS],
                more=len(found) - MAX_HITS,
                jobs=len({hit.job for hit in found}),
                least=LEAST_DIGITS,
            )
            return None, page

        return self._chain.reading(make)

    def account(self, address: str, page: int = 1) -> str:
        """An account: its part in each job, what it has staked, won and lost."""
        who = address.lower()
        if not _ADDRESS.fullmatch(who):
            raise NotThere("that is no account: 0x and 40 digits")

        def make(look: Look) -> str:
            jobs = jobs_of(look, who)
            last = max(1, -(-len(jobs) // PER_PAGE))
            if not 1 <= page <= last:
                raise NotThere(f"there is no page {page}; the jobs of this account fill {last}")
            rows = []
            for number in jobs[(page - 1) * PER_PAGE : page * PER_PAGE]:
                try:
                    rows.append(self._part(look, number, who))
                except AssayError as error:
                    rows.append({"id": number, "reason": str(error)})
            known = [row for row in rows if "reason" not in row]
            return self._render(
                "account.html",
                f"Account {who[:10]}",
                look=look,
                who=who,
                burned=who == BURNED.lower(),
                rows=rows,
                page=page,
                last=last,
                count=len(jobs),
                bond=look.snapshot.registered(who).bond,
                owed=sum(wei for _, wei in look.snapshot.credits(who)),
                sums={
                    name: sum(row[name] for row in known)
                    for name in ("stake", "won", "lost", "profit", "fee")
                },
            )

        return self._chain.reading(make)

    def _part(self, look: Look, number: int, who: str) -> dict[str, Any]:
        """Return an account's part in a job. Amounts are wei; ``won`` and ``lost`` count disputes."""
        job = look.job(number)
        parties = Parties(job)
        claims = [claim for claim in job.claims if claim.owner.lower() == who]
        disputes = []
        for match_id in look.matches(job):
            match = look.snapshot.match(job, match_id)
            players = [player.lower() for player in match.terms.players]
            if who in players:
                decided = match.state.reason is not Reason.NONE
                lost = decided and players.index(who) in sides(match.state.losers)
                outcome = "lost" if lost else "won" if decided else "open"
                disputes.append((self._place.dispute(number, match_id), outcome))
        money = [one for one in flow(look, job, parties).accounts if one.address.lower() == who]
        return {
            "id": number,
            "name": self._name(job),
            "phase": phase(job, look.now),
            "part": parties.part(who) or "took part",
            "claims": len(claims),
            "dead": sum(claim.lost for claim in claims),
            "stake": sum(claim.stake for claim in claims),
            "disputes": disputes,
            "won": sum(outcome == "won" for _, outcome in disputes),
            "lost": sum(outcome == "lost" for _, outcome in disputes),
            "profit": sum(one.profit for one in money),
            "fee": sum(one.fee for one in money),
        }
