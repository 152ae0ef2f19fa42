"""Manifests for tests that need no model behind them."""

from __future__ import annotations

from typing import Any

import msgspec

from daemon.package import Manifest


def manifest_fields(**changes: Any) -> dict[str, Any]:
    """Fields of a valid manifest: 16x16 grey, a stack of two, three actions, history of four."""
    fields: dict[str, Any] = {
        "manifest_version": 1,
        "name": "tiny",
        "model": {"sha256": "0" * 64, "bytes": 1},
        "goldens": {"sha256": "0" * 64, "bytes": 1, "count": 1, "tolerance": 1e-4},
        "inputs": [
            {
                "role": "frame",
                "name": "frames",
                "dtype": "uint8",
                "shape": [1, 2, 16, 16],
                "layout": "NSHW",
                "view": {"width": 16, "height": 16, "format": "gray8"},
                "offsets_ms": [0.0, -50.0],
            },
            {"role": "history", "name": "history", "dtype": "int64", "shape": [1, 4], "padding_token": 3},
        ],
        "outputs": [{"role": "action_logits", "name": "logits", "dtype": "float32", "shape": [1, 3]}],
        "actions": ["LEFT", "STAY", "RIGHT"],
        "operators": [],
        "backends": [],
        "quantisation": "none",
        "built_with": {},
        "parity": {"samples": 1, "action_agreement": 1.0, "max_abs_error": 0.0},
        "latency": {"p50_ms": 0.1, "p99_ms": 0.2, "threads": 1, "machine": "none"},
    }
    return fields | changes


def manifest(**changes: Any) -> Manifest:
    """The same as a struct."""
    return msgspec.convert(manifest_fields(**changes), Manifest)
