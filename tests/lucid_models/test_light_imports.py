import json
import subprocess
import sys
from pathlib import Path

from lucid_models.model_format import save_model
from tests.lucid_models.model_conformance import HEAVY

PROGRAM = """
import json, sys
from lucid_models.scoring import load_scorer
import lucid_models.duration.features, lucid_models.model_format
kinds = ("packing", "throughput", "duration")
packing, throughput, duration = (load_scorer(f"{sys.argv[1]}/{kind}.json") for kind in kinds)
job = {"job_id": "q1", "gpus": 2, "user": "u1", "name": "net1_lr2", "virtual_cluster": "vc1"}
job["submit_time_s"] = 1.587e9
values = [packing.predict(50, 20, 4000, 1).tolist(), throughput.predict_next([3.0] * 300, 0, 3).tolist()]
duration.state.observe_submit(job)
duration.state.observe_start("q1", 1.587e9 + 5)
values.append(duration.estimate([job])[0].reason)
duration.state.observe_end({"job_id": "q1", "end_time_s": 1.587e9 + 100, "duration_s": 95.0})
loaded = [name for name in sys.argv[2].split(",") if name in sys.modules]
print(json.dumps([loaded, values]))
"""


def test_a_live_client_needs_numpy_only(
    packing_model, throughput_model, duration_model, tmp_path: Path
) -> None:
    for model in (packing_model, throughput_model, duration_model):
        save_model(model.to_data(), tmp_path / f"{model.kind}.json")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), ",".join(HEAVY)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    loaded, values = json.loads(done.stdout)
    assert loaded == []
    assert values[0] == packing_model.predict(50, 20, 4000, 1).tolist()
    assert "because" in values[2]
