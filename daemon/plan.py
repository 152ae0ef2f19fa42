"""A run's plan: the checked configuration with the manifests of its packages, and the rules between the parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from daemon.config import Actuator, Agent, Config, ConfigError, parse
from daemon.package import LogitsOutput, Manifest, PackageError, read_manifest
from daemon.pins import pin_complaints
from daemon.sources import Frames, Video
from daemon.views import View
from daemon.worlds import WORLDS, WorldFacts

STALL_NS, STALL_PERIODS = 500_000_000, 5
"""A source without a good picture for this long, or as many of its periods, is stalled: capture gives up on it a little
later, infer says so, its agents propose nothing and their actuators time out."""


class Plan(msgspec.Struct, frozen=True):
    """A checked configuration with the manifests of its packages."""

    path: Path
    config: Config
    manifests: dict[str, Manifest]

    def package(self, agent: str) -> Path:
        """Folder of an agent's model package, absolute."""
        return (self.path.parent / self.config.agents[agent].package).resolve()

    def views(self, source: str) -> list[View]:
        """The different views agents need of a source, in the order of the agents."""
        views = [
            self.manifests[name].frame.view for name, agent in self.config.agents.items() if agent.source == source
        ]
        return list({view.name: view for view in views}.values())

    def frame_rate(self, source: str) -> float:
        """Frames per second a source delivers."""
        if source in self.config.sources:
            return self.config.sources[source].fps
        return WORLDS[self.config.worlds[source].game].fps

    def stall_ns(self, source: str) -> int:
        """How long a source may be without a good picture before it is stalled."""
        return max(STALL_NS, round(STALL_PERIODS * 1e9 / self.frame_rate(source)))

    def slots(self, source: str) -> int:
        """Slots a ring of this source needs: the longest a frame may be in use, in frames, and two more."""
        period_ms = 1e3 / self.frame_rate(source)
        use_ms = max(
            (
                agent.max_age_ms - self.manifests[name].frame.offsets_ms[-1]
                for name, agent in self.config.agents.items()
                if agent.source == source
            ),
            default=0.0,  # nobody looks at it
        )
        return math.ceil(use_ms / period_ms) + 2


def load_without_packages(path: Path) -> Plan:
    """Read and check a configuration file alone, for a process that must start whatever becomes of the packages.

    Raises:
        ConfigError: naming file, key, value and what was expected.
    """
    return Plan(path.resolve(), parse(path), {})


def load(path: Path) -> Plan:
    """Read and check a configuration file and the manifests it names.

    Raises:
        ConfigError: naming file, key, value and what was expected.
    """
    config = parse(path)
    manifests = {}
    for name, agent in config.agents.items():
        try:
            manifests[name] = read_manifest((path.parent / agent.package).resolve())
        except PackageError as error:
            raise ConfigError(f"{path}: agents.{name}.package = {agent.package!r}: {error}") from None
    for complaint in complaints(config, manifests):
        raise ConfigError(f"{path}: {complaint}")
    return Plan(path.resolve(), config, manifests)


def complaints(config: Config, manifests: dict[str, Manifest]) -> Iterator[str]:
    """Yield ``key = value: what was expected`` for every part that does not fit another."""
    for name in config.worlds.keys() & config.sources.keys():
        yield f"worlds.{name} and sources.{name}: a world is a source of its own name; choose another name"
    for name, actuator in config.actuators.items():
        yield from (f"actuators.{name}.{text}" for text in _actuator_complaints(actuator, config))
    yield from pin_complaints(config)
    for name in config.agents.keys() & (config.worlds.keys() | config.sources.keys()):
        yield f"agents.{name}: a source or world has this name; choose another, they are counted side by side"
    for name, agent in config.agents.items():
        yield from (f"agents.{name}.{text}" for text in _agent_complaints(agent, config, manifests[name]))
    yield from _manual_complaints(config)
    moved = [actuator.world for actuator in config.actuators.values() if actuator.world is not None]
    for name in config.worlds:
        if moved.count(name) != 1:
            yield f"worlds.{name}: expected one actuator with world = {name!r}, found {moved.count(name)}"


def _manual_complaints(config: Config) -> Iterator[str]:
    taken = config.agents.keys() | config.worlds.keys() | config.sources.keys()
    for name, manual in config.manual.items():
        if name in taken:
            yield f"manual.{name}: an agent, source or world has this name: choose another"
        if manual.actuator not in config.actuators:
            names = _names(config.actuators)
            yield f"manual.{name}.actuator = {manual.actuator!r}: expected one of the actuators: {names}"
        elif manual.max_age_ms > config.actuators[manual.actuator].deadman_ms:
            deadman_ms = config.actuators[manual.actuator].deadman_ms
            yield f"manual.{name}.max_age_ms = {manual.max_age_ms}: expected at most deadman_ms = {deadman_ms}"
        if config.gateway is None:
            yield f"manual.{name}: expected a table [gateway], through which it comes"


def _actuator_complaints(actuator: Actuator, config: Config) -> Iterator[str]:
    if (actuator.driver == "simulated") != (actuator.world is not None):
        yield f"world = {actuator.world!r}: expected with driver = 'simulated' and only there"
    if actuator.world is not None and actuator.world not in config.worlds:
        yield f"world = {actuator.world!r}: expected one of the worlds: {_names(config.worlds)}"
    if actuator.world in config.worlds:
        yield from _world_complaints(actuator, WORLDS[config.worlds[actuator.world].game])
    if bool(actuator.actions) == bool(actuator.channels):
        yield "actions, channels: expected one of the two (discrete or continuous)"
    yield from _vocabulary_complaints(actuator)
    for i, channel in enumerate(actuator.channels):
        if not channel.minimum <= channel.neutral <= channel.maximum:
            limits = f"{channel.minimum}, {channel.neutral}, {channel.maximum}"
            yield f"channels.{i}: expected minimum <= neutral <= maximum, got {limits}"
    if actuator.hold_ms > actuator.deadman_ms:
        yield f"hold_ms = {actuator.hold_ms}: expected at most deadman_ms = {actuator.deadman_ms}"


def _world_complaints(actuator: Actuator, world: WorldFacts) -> Iterator[str]:
    """What the world would not understand: a neutral it does not know would stop nothing."""
    if not set(actuator.actions) <= set(world.actions):
        yield f"actions = {actuator.actions}: world {actuator.world} takes {', '.join(world.actions)}"
    if actuator.neutral != world.neutral:
        yield f"neutral = {actuator.neutral!r}: in world {actuator.world} only {world.neutral!r} does nothing"


def _vocabulary_complaints(actuator: Actuator) -> Iterator[str]:
    if actuator.actions and actuator.neutral not in actuator.actions:
        yield f"neutral = {actuator.neutral!r}: expected one of actions: {', '.join(actuator.actions)}"
    if len(set(actuator.actions)) != len(actuator.actions):
        yield f"actions = {actuator.actions}: a name stands twice"
    for pair in actuator.forbidden:
        if not set(pair) <= set(actuator.actions):
            yield f"forbidden = {list(pair)}: expected two of actions: {', '.join(actuator.actions)}"
        if pair[1] == actuator.neutral:
            yield f"forbidden = {list(pair)}: the way to neutral cannot be forbidden"


def _agent_complaints(agent: Agent, config: Config, manifest: Manifest) -> Iterator[str]:
    sources = config.sources.keys() | config.worlds.keys()
    if agent.source not in sources:
        yield f"source = {agent.source!r}: expected a source or world: {_names(sources)}"
    actuator = config.actuators.get(agent.actuator)
    if actuator is None:
        yield f"actuator = {agent.actuator!r}: expected one of the actuators: {_names(config.actuators)}"
        return
    if agent.max_age_ms > actuator.deadman_ms:
        yield f"max_age_ms = {agent.max_age_ms}: expected at most the actuator's deadman_ms = {actuator.deadman_ms}"
    if agent.effective_deadline_ms > agent.max_age_ms:
        yield f"deadline_ms = {agent.effective_deadline_ms:.1f}: expected at most max_age_ms = {agent.max_age_ms}"
    if isinstance(manifest.output, LogitsOutput):
        missing = [action for action in manifest.actions if action not in actuator.actions]
        if missing:
            yield f"package = {agent.package!r}: its actions {missing} are not in actuators.{agent.actuator}.actions"
    elif len(manifest.output.units) != len(actuator.channels):
        values, channels = len(manifest.output.units), len(actuator.channels)
        yield f"package = {agent.package!r}: gives {values} values, actuators.{agent.actuator} has {channels} channels"
    size = _picture_size(config, agent.source)
    crop = manifest.frame.view.crop
    if size is not None and crop is not None and not crop.within(*size):
        yield f"package: its view {manifest.frame.view.name} lies outside the source's {size[0]}x{size[1]} picture"


def _picture_size(config: Config, source: str) -> tuple[int, int] | None:
    """Width and height of a source's raw picture where the configuration says it; files have their own."""
    found = config.sources.get(source)
    if source in config.worlds:
        world = WORLDS[config.worlds[source].game]
        return world.width, world.height
    return None if found is None or isinstance(found, Frames | Video) else (found.width, found.height)


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "(none declared)"
