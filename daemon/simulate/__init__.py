"""Simulated worlds: each a process of its own that shows frames as a camera would and moves as an actuator says."""
