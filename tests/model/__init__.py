"""A model of the whole chain in Python: all contracts with their money. Tests and simulations use it; no daemon does.

chain_model  the composition root
jobs_contract  jobs, claims, groups and money: the contract `Jobs`; jobs, market, availability_hook are its parts
escrow  credits     panel, registry  hearings with the court's trials; verifiers and their bonds
data_availability  requests     watch  bounties     timekeeper  pauses     pledges  ether behind receipts
"""
