"""Campaigns: many games with real nodes on a real chain, in which something is broken all the time."""
