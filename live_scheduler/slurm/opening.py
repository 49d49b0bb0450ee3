"""Slurm as an adapter: the cluster that SLURM_CONF and PATH name, its profiling stage, its shared GPUs."""

from dataclasses import replace
from pathlib import Path

from live_scheduler.adapter import ClusterAdapter, Profiling, ProfilingMoves, Stage
from live_scheduler.adapters import AdapterKind, OpenedCluster, RestorableCluster, profiling_part
from live_scheduler.capability import PROFILING_PARTITION, capabilities
from live_scheduler.live_settings import LiveSettings, Mode


class Slurm(AdapterKind):
    """Has no settings of its own: partitions are those of every live scheduler."""

    moves_jobs = True

    def open(self, settings: LiveSettings, folder: Path) -> OpenedCluster:
        """Return the cluster with the stages that the settings ask for; raises OSError for the folder."""
        from live_scheduler.safety.touched import TouchedJobs, Way
        from live_scheduler.slurm.shared_partitions import SharedPartitions

        adapter = _adapter(settings, folder)
        stages: list[Stage] = []
        profiling: Profiling | None = None
        if settings.profiling_partition:
            profiling_stage: ProfilingMoves = self.open_for(profiling_part(), settings, folder)
            stages.append(profiling_stage)
            profiling = profiling_stage
        if settings.shared_partitions:
            touched = TouchedJobs(folder)
            shared = SharedPartitions(
                settings, delayed=touched.that_are(Way.DELAYED), restricted=touched.that_are(Way.RESTRICTED)
            )
            stages.append(shared)
            adapter = shared.over(adapter)
        return OpenedCluster(adapter, stages, profiling)

    def open_to_restore(self, settings: LiveSettings, folder: Path) -> RestorableCluster:
        """Return the cluster, and its profiling stage, which returns what it moved; raises OSError."""
        adapter = _adapter(settings, folder)
        part = capabilities().get(PROFILING_PARTITION) if settings.profiling_partition else None
        if part is None:  # their marks alone bring jobs home too
            return adapter, None
        # A daemon that only looks on now may have moved jobs before.
        controls = replace(settings, mode=Mode.CONTROL)
        moves: ProfilingMoves = self.open_for(part, controls, folder)
        return adapter, moves


def _adapter(settings: LiveSettings, folder: Path) -> ClusterAdapter:
    from live_scheduler.slurm.adapter import SlurmAdapter
    from live_scheduler.slurm.slurm_memory import SlurmMemory

    return SlurmAdapter(
        profiling_partition=settings.profiling_partition,
        memory=SlurmMemory.of(folder, settings.cluster),
    )
