"""Host side: a PyTorch policy becomes a package that a device may load. Nothing on a device imports this."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from daemon.export.recipe import ExportError, read_recipe
from daemon.package import MODEL_FILE, Manifest

__all__ = ["ExportError", "ExportReport", "export_package"]


class ExportReport(msgspec.Struct, frozen=True):
    """What an export made. ``delegated`` is the share of operators a backend computes, ``seconds`` the whole run."""

    package: Path
    manifest: Manifest
    delegated: float
    seconds: float

    def lines(self) -> list[str]:
        """The report for a terminal: one line per step."""
        made, parity, latency = self.manifest, self.manifest.parity, self.manifest.latency
        return [
            f"model     {made.name}: {made.model.bytes / 1e6:.2f} MB, sha256 {made.model.sha256[:16]}…",
            f"operators {', '.join(made.operators) or 'none outside the backends'}",
            f"backends  {', '.join(made.backends) or 'none'}, {self.delegated:.0%} of the graph delegated",
            f"parity    {parity.samples} cases, {parity.action_agreement:.2%} agree, error {parity.max_abs_error:.2g}",
            f"latency   p50 {latency.p50_ms:.3f} ms, p99 {latency.p99_ms:.3f} ms (1 thread, {latency.machine})",
            f"package   {self.package} ({made.goldens.count} goldens, {self.seconds:.1f} s)",
        ]


def export_package(model_folder: Path, out: Path | None = None) -> ExportReport:
    """Export the policy of a model folder (see ``recipe``) to a package.

    Args:
        model_folder: folder with ``model.toml``, the policy and its recorded observations.
        out: where the package goes, ``package`` inside the model folder by default; an older one is replaced.

    Raises:
        ExportError: anything that would not work on the device. Nothing is written then, an older package stays.
    """
    began = time.monotonic()
    target = (out or model_folder / "package").absolute()
    recipe = read_recipe(model_folder)
    # torch and the lowering take seconds to import: a wrong key in model.toml is answered without them.
    try:
        from daemon.export.lower import lower
        from daemon.export.parity import compare
        from daemon.export.policy import check_layout, load_policy, read_examples, run_eager
        from daemon.export.publish import publish, staging
    except ModuleNotFoundError as error:
        raise ExportError(f"export needs {error.name}: pip install 'reflexd[export]' on the host") from None

    policy = load_policy(model_folder, recipe)
    observations = read_examples(model_folder / recipe.examples, recipe)
    check_layout(observations[0], recipe)
    expected = [run_eager(policy, observation, recipe) for observation in observations]
    with staging(target) as folder:
        program = lower(policy, observations[0])
        (folder / MODEL_FILE).write_bytes(program.data)
        result = compare(folder / MODEL_FILE, observations, expected, recipe)
        manifest = publish(folder, target, recipe, program, observations, result)
    return ExportReport(target, manifest, program.delegated, time.monotonic() - began)
