"""The actuator side: arbiter, safety valve, e-stop latch, drivers, and the process that puts them together."""
