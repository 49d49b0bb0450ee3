"""Clusters and jobs as a scheduler would push them."""

from live_scheduler import cluster_state as live
from live_scheduler.service import schema


def pushed_cluster(cluster: live.ClusterState) -> schema.ClusterState:
    """Return a cluster as a scheduler would push it: what `live_cluster` takes back."""
    return schema.ClusterState(
        at_s=cluster.at_s,
        jobs=tuple(pushed_job(job) for job in cluster.jobs),
        nodes=tuple(
            schema.Node(
                name=node.name,
                gpus=node.gpus,
                gpus_used=node.gpus_used,
                available=node.available,
                partitions=node.partitions,
            )
            for node in cluster.nodes
        ),
        closed_partitions=tuple(sorted(cluster.closed_partitions)),
    )


def pushed_job(job: live.LiveJob) -> schema.Job:
    """Return a job as a scheduler would push it."""
    return schema.Job(
        job_id=job.job_id,
        virtual_cluster=job.virtual_cluster,
        gpus=job.gpus,
        submit_time_s=job.submit_time_s,
        partition=job.partition,
        user=job.user,
        name=job.name,
        cpus=job.cpus,
        nodes=job.nodes,
        time_limit_s=job.time_limit_s,
        job_type=job.job_type,
        held=job.held,
        waits_for=job.waits_for,
        start_time_s=job.start_time_s,
        gpus_on=tuple(schema.NodeShare(node=node, gpus=gpus) for node, gpus in job.gpus_on),
        shares_gpus=job.shares_gpus,
        profiled=job.restarts > 0,
        facts={name: f"{fact}" for name, fact in job.other_facts.items()},
    )
