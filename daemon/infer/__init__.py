"""Inference: from frames and executed actions to proposals, and the check of a model package before it may act."""
