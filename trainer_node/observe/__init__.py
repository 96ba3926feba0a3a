"""Observation of a node: events, metrics, problems, progress.

build        which build this is
logs         structured events on standard error
metrics      counters and gauges for Prometheus
problems     what is wrong at present, by topic: /readyz
run_reports  how far a run has come, for those who ask
pace         steps per second, and the time left
systemd      readiness and liveness for the service manager
"""
