"""Settings of a node.

settings  flags over environment over file over defaults
sections  limits, policy, what is kept, fees
retired   former names
"""
