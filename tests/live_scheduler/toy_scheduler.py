"""A scheduler that is not Slurm: it knows gRPC, the generated module and nothing else of the product.

    python toy_scheduler.py ADDRESS TOKEN_FILE JOBS SEED OUT

One virtual cluster of two nodes with 8 GPUs each, in a time of its own. At each event it reports the ends,
pushes what it has, and starts what the decision starts. OUT gets a line of JSON for every push.
"""

import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import grpc
from google.protobuf import json_format

from live_scheduler.service import scheduler_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["Scheduler"]
EPOCH_S = 1_900_000_000.0
NODES = ("n1", "n2")
GPUS = 8


def calls_of(channel):
    """One attribute a call of scheduler.proto, as the stubs of protobuf's compiler have them."""

    def call_of(method):
        make = channel.stream_stream if method.client_streaming else channel.unary_unary
        return make(
            f"/{SERVICE.full_name}/{method.name}",
            request_serializer=getattr(pb, method.input_type.name).SerializeToString,
            response_deserializer=getattr(pb, method.output_type.name).FromString,
        )

    return SimpleNamespace(**{method.name: call_of(method) for method in SERVICE.methods})


class Toy:
    def __init__(self, jobs, seed):
        random_ = random.Random(seed)
        self.now_s = EPOCH_S
        self.coming, self.duration_s = [], {}
        at_s = EPOCH_S
        for number in range(jobs):
            at_s += random_.expovariate(1 / 60.0)
            user = f"u{random_.randrange(4)}"
            job = pb.Job(
                job_id=f"default/job-{number}",  # a name as Kubernetes has it
                virtual_cluster="vc",
                gpus=random_.choice([1, 1, 2, 4, 8]),
                submit_time_s=at_s,
                user=user,
                name=f"train_{user}",
            )
            self.duration_s[job.job_id] = random_.lognormvariate(5.0, 1.0)
            self.coming.append(job)
        self.waiting, self.running = {}, {}

    def state(self):
        state = pb.ClusterState(at_s=self.now_s)
        state.jobs.extend([*self.running.values(), *self.waiting.values()])
        for name in NODES:
            state.nodes.add(
                name=name, gpus=GPUS, gpus_used=GPUS - self.free(name), available=True, partitions=["vc"]
            )
        return state

    def free(self, node):
        held = (share for job in self.running.values() for share in job.gpus_on)
        return GPUS - sum(share.gpus for share in held if share.node == node)

    def start(self, job_id, gpus_on):
        job = self.waiting.pop(job_id)
        assert sum(share.gpus for share in gpus_on) == job.gpus
        assert all(self.free(share.node) >= share.gpus for share in gpus_on)
        job.gpus_on.extend(gpus_on)
        job.start_time_s = self.now_s
        self.running[job_id] = job

    def step(self):
        """Go to the next event; return the jobs that ended."""
        ends = [(job.start_time_s + self.duration_s[job_id], job_id) for job_id, job in self.running.items()]
        arrivals = [job.submit_time_s for job in self.coming[:1]]
        self.now_s = min([end for end, _ in ends] + arrivals)
        while self.coming and self.coming[0].submit_time_s <= self.now_s:
            job = self.coming.pop(0)
            self.waiting[job.job_id] = job
        ended = []
        for end_s, job_id in sorted(ends):
            if end_s <= self.now_s:
                job = self.running.pop(job_id)
                ended.append(
                    pb.EndedJob(
                        job=job, state="COMPLETED", start_time_s=job.start_time_s, end_time_s=self.now_s
                    )
                )
        return ended


def plain(message):
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def main(address, token_file, jobs, seed, out):
    metadata = (("authorization", f"Bearer {Path(token_file).read_text().strip()}"),)
    toy = Toy(int(jobs), int(seed))
    with grpc.insecure_channel(address) as channel, Path(out).open("w") as file:
        stub = calls_of(channel)
        while toy.coming or toy.waiting or toy.running:
            ended = toy.step()
            if ended:
                taken = stub.ReportEnds(pb.EndedJobs(jobs=ended), metadata=metadata, timeout=300)
                assert taken.new == len(ended)
                assert stub.ReportEnds(pb.EndedJobs(jobs=ended), metadata=metadata).known == len(ended)
            state = toy.state()
            decision = stub.Schedule(state, metadata=metadata, timeout=300)
            line = {
                "state": plain(state),
                "decision": plain(decision),
                "ended": [plain(end) for end in ended],
            }
            file.write(json.dumps(line) + "\n")
            for place in decision.ranked:
                if place.starts_now:
                    toy.start(place.job_id, place.gpus_on)


if __name__ == "__main__":
    main(*sys.argv[1:])
