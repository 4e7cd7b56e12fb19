"""Sections of `troupe --help`, in this order."""

START, RUNS = "Start", "Runs"
EXPERIMENTS, RESULTS, PROJECTS, SERVER = "Experiments", "Results", "Projects", "Server"
