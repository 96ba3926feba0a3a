"""Settings of a node.

settings  flags over environment over file over defaults
extent    a challenger's mode
sections  limits, policy, what is kept, fees
retired   former names
"""
