"""Capture: one process per source, from the sensor to the frame ring."""
