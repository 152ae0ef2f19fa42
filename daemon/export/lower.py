"""From a policy to an ExecuTorch program: strict export, XNNPACK delegation, and what the program will need."""

from __future__ import annotations

import warnings
from typing import Any

import msgspec
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools.backend_debug import get_delegation_info
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from torch import nn

from daemon.export.policy import Observation
from daemon.export.recipe import ExportError


class Program(msgspec.Struct, frozen=True):
    """A lowered policy.

    Attributes:
        data: content of the ``.pte`` file.
        operators: kernels the runtime must have, as ``namespace::name.overload``, sorted.
        backends: delegates the runtime must have, sorted.
        delegated: share of the graph's operators that a delegate computes, 0 to 1.
    """

    data: bytes
    operators: list[str]
    backends: list[str]
    delegated: float


def lower(policy: nn.Module, observation: Observation) -> Program:
    """Export the policy for the shapes of ``observation`` and lower it, fp32, delegated to XNNPACK where it can be.

    Raises:
        ExportError: the policy cannot be captured or lowered; the text names the step.
    """
    step = "torch.export (strict)"
    # torch warns about its own tree code a dozen times per export; nothing in a policy can change that.
    warnings.filterwarnings("ignore", message=r".*isinstance\(treespec, LeafSpec\)", category=FutureWarning)
    try:
        captured = torch.export.export(policy, observation, strict=True)
        step = "lowering to XNNPACK"
        edge = to_edge_transform_and_lower(
            captured,
            partitioner=[XnnpackPartitioner()],
            # The validity check refuses operators outside the core set, which the portable kernels do cover.
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
        # No memory of its own for the inputs: a frame is read where it lies, in the ring, and not copied once more.
        planning = MemoryPlanningPass(alloc_graph_input=False)
        manager = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    except Exception as error:
        reason = str(error).strip().splitlines() or [""]
        raise ExportError(f"{step} failed: {type(error).__name__}: {' '.join(reason[:4])}") from error
    operators, backends = _needs(manager.executorch_program)
    delegation = get_delegation_info(edge.exported_program().graph_module)
    total = delegation.num_delegated_nodes + delegation.num_non_delegated_nodes
    return Program(bytes(manager.buffer), operators, backends, delegation.num_delegated_nodes / max(total, 1))


def _needs(program: Any) -> tuple[list[str], list[str]]:
    """Operators and backends of every method, by the names the runtime's registries use."""
    operators: set[str] = set()
    backends: set[str] = set()
    for plan in program.execution_plan:
        operators.update(f"{op.name}.{op.overload}" if op.overload else op.name for op in plan.operators)
        backends.update(delegate.id for delegate in plan.delegates)
    return sorted(operators), sorted(backends)
