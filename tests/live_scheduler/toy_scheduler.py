"""A scheduler that is not Slurm: it knows the requests of /v1/openapi.json, nothing else of the product.

    python toy_scheduler.py URL TOKEN_FILE JOBS SEED OUT

One virtual cluster of two nodes with 8 GPUs each, in a time of its own. At each event it reports the ends,
pushes what it has, and starts what the decision starts. OUT gets a line of JSON for every push.
"""

import json
import random
import sys
from pathlib import Path

import httpx

EPOCH_S = 1_900_000_000.0
NODES = ("n1", "n2")
GPUS = 8


class Toy:
    def __init__(self, jobs, seed):
        random_ = random.Random(seed)
        self.now_s = EPOCH_S
        self.coming, self.duration_s = [], {}
        at_s = EPOCH_S
        for number in range(jobs):
            at_s += random_.expovariate(1 / 60.0)
            user = f"u{random_.randrange(4)}"
            job = {
                "job_id": f"default/job-{number}",  # a name as Kubernetes has it
                "virtual_cluster": "vc",
                "gpus": random_.choice([1, 1, 2, 4, 8]),
                "submit_time_s": at_s,
                "user": user,
                "name": f"train_{user}",
            }
            self.duration_s[job["job_id"]] = random_.lognormvariate(5.0, 1.0)
            self.coming.append(job)
        self.waiting, self.running = {}, {}

    def state(self):
        return {
            "at_s": self.now_s,
            "jobs": [*self.running.values(), *self.waiting.values()],
            "nodes": [
                {
                    "name": name,
                    "gpus": GPUS,
                    "gpus_used": GPUS - self.free(name),
                    "available": True,
                    "partitions": ["vc"],
                }
                for name in NODES
            ],
        }

    def free(self, node):
        held = (share for job in self.running.values() for share in job["gpus_on"])
        return GPUS - sum(share["gpus"] for share in held if share["node"] == node)

    def start(self, job_id, gpus_on):
        job = self.waiting.pop(job_id)
        assert sum(share["gpus"] for share in gpus_on) == job["gpus"]
        assert all(self.free(share["node"]) >= share["gpus"] for share in gpus_on)
        self.running[job_id] = job | {"gpus_on": gpus_on, "start_time_s": self.now_s}

    def step(self):
        """Go to the next event; return the jobs that ended."""
        ends = [
            (job["start_time_s"] + self.duration_s[job_id], job_id) for job_id, job in self.running.items()
        ]
        arrivals = [job["submit_time_s"] for job in self.coming[:1]]
        self.now_s = min([end for end, _ in ends] + arrivals)
        while self.coming and self.coming[0]["submit_time_s"] <= self.now_s:
            job = self.coming.pop(0)
            self.waiting[job["job_id"]] = job
        ended = []
        for end_s, job_id in sorted(ends):
            if end_s <= self.now_s:
                job = self.running.pop(job_id)
                ended.append(
                    {
                        "job": job,
                        "state": "COMPLETED",
                        "start_time_s": job["start_time_s"],
                        "end_time_s": self.now_s,
                    }
                )
        return ended


def main(url, token_file, jobs, seed, out):
    headers = {"Authorization": f"Bearer {Path(token_file).read_text().strip()}"}
    toy = Toy(int(jobs), int(seed))
    with (
        httpx.Client(base_url=url, headers=headers, timeout=300, trust_env=False) as http,
        Path(out).open("w") as file,
    ):

        def post(path, message):
            return http.post(f"/v1/{path}", json=message).raise_for_status().json()

        while toy.coming or toy.waiting or toy.running:
            ended = toy.step()
            if ended:
                assert post("ends", {"jobs": ended})["new"] == len(ended)
                assert post("ends", {"jobs": ended})["known"] == len(ended)
            state = toy.state()
            decision = post("schedule", state)
            file.write(json.dumps({"state": state, "decision": decision, "ended": ended}) + "\n")
            for place in decision["ranked"]:
                if place["starts_now"]:
                    toy.start(place["job_id"], place["gpus_on"])


if __name__ == "__main__":
    main(*sys.argv[1:])
