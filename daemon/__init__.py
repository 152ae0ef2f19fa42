"""reflexd: learned policies acting on a small Linux device, from camera frame to actuator."""

__version__ = "0.1.0"
