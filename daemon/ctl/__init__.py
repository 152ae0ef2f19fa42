"""The operator's command line ``reflexctl``: devices, commands, streams."""
