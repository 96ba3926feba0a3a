"""Bytes from and for other parties over HTTP: nothing is believed, everything is bounded.

artifact_server  serves artifacts, health and metrics
bounded_http     its connections: how many, and for how long
fetcher          fetches an artifact from several servers
download         from one of them
uri              the address of a server
sources          one way to ask for artifacts: of servers here, of a location in audit
opponents        requests to an opponent's servers
budget           how long one work may wait for strangers
peer_costs       what each server has cost without delivering
"""
