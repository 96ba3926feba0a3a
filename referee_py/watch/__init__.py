"""Bounties for whoever knew the right root before anybody revealed one (docs/protocol.md, section 9).

contract  the contract `Watch`      payoffs   what watching, several accounts and collusion gain
refusals  why a move is refused
"""

from .contract import Bounty, Pool, Watch, Watcher, WatcherState, share_of, watch_commitment

__all__ = ["Bounty", "Pool", "Watch", "Watcher", "WatcherState", "share_of", "watch_commitment"]
