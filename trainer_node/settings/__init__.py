"""Settings of a node.

settings     flags over environment over file over defaults
config_file  which file, what is in it, and whether there was one
extent       a challenger's mode
sections     limits, policy, what is kept, fees
retired      former names
"""
