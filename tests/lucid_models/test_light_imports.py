import json
import subprocess
import sys
from pathlib import Path

from lucid_models.model_format import save_model

HEAVY = ("pandas", "sklearn", "interpret", "mlflow", "pyarrow", "scipy", "lightgbm", "matplotlib", "airflow")
PROGRAM = """
import json, sys
import numpy as np
from lucid_models.scoring import load_scorer
import lucid_models.duration.features, lucid_models.model_format
kinds = ("packing", "throughput", "duration", "node_demand", "inference_load", "waits")
loaded_models = (load_scorer(f"{sys.argv[1]}/{kind}.json") for kind in kinds)
packing, throughput, duration, node_demand, load, waits = loaded_models
job = {"job_id": "q1", "gpus": 2, "user": "u1", "name": "net1_lr2", "virtual_cluster": "vc1"}
job["submit_time_s"] = 1.587e9
values = [packing.predict(50, 20, 4000, 1).tolist(), throughput.predict_next([3.0] * 300, 0, 3).tolist()]
duration.state.observe_submit(job)
duration.state.observe_start("q1", 1.587e9 + 5)
values.append(duration.estimate([job])[0].reason)
values.append(node_demand.forecast([3.0] * 300, 1.587e9).near_mean)
values.append(waits.forecast_rows(np.zeros((1, len(waits.features.names))), ["cpu"]).tolist())
values.append(load.forecast([0.3] * 300, 1.587e9).quantiles[0.9])
duration.state.observe_end({"job_id": "q1", "end_time_s": 1.587e9 + 100, "duration_s": 95.0})
loaded = [name for name in sys.argv[2].split(",") if name in sys.modules]
print(json.dumps([loaded, values]))
"""


def test_a_live_client_needs_numpy_only(
    packing_model,
    throughput_model,
    duration_model,
    node_demand_model,
    inference_load_model,
    wait_model,
    tmp_path: Path,
) -> None:
    models = (
        packing_model,
        throughput_model,
        duration_model,
        node_demand_model,
        inference_load_model,
        wait_model,
    )
    for model in models:
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
