"""The gateway: commands, telemetry and logs for clients on this and other machines."""
