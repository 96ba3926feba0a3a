"""The disk of a node: artifacts by hash, a database, and room for what it stakes on.

artifacts        the kinds of artifact: names, bytes, checks while they arrive
incoming         artifacts on their way into a store
store            artifacts on disk, by hash
verify           a check of every artifact against its name
store_files      which file holds which artifact
refused_by_disk  artifacts that the disk has refused, in memory
job_holds        which artifacts belong to which job
letting_go       letting go of what jobs hold: lines first, then files
drawn            what was drawn in a job and is in use
at_rest          jobs that may let go of what they hold
held_bytes       bytes that each job holds
resting_states   states that go for a job that is considered
ended_runs       rows of runs, which go with the last of their jobs
freeable         what a sweep could free, estimated before it begins
retention        what stays and what goes
disk_keeper      room for the jobs on which the node stakes, and for its moves
asked_room       jobs for which there was no room
disk_report      what is told of the disk
disk             errors of the disk, free space, the ballast
disk_estimate    disk space that a job takes, from its terms
database         the persistent state, in SQLite
tables           the database's tables
made_folders     folders that our commands make again, and what in them is ours
tensor_file      safetensors files that people keep
untrusted_file   files that strangers may have placed
process          a lock on a folder, and the signals of a process
"""
