"""The two tables of bounds: waits on strangers, and works that strangers can cause.

waits  what is waited for, at most how long, and what then; the seconds that follow
works  what strangers can make us do, and what bounds it
"""
