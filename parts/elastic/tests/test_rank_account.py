"""Why a job stands where it stands under PCS, in words."""

from tests.live_scheduler.test_rank_accounts import NOW, decided, job, said

PCS = {
    "thresholds_s": [1_000.0, 100_000.0, "inf"],
    "weights": [0.5, 0.25, 0.25],
    "efficiency_min": 0.0,
    "efficiency_step": 1.0,
}


def test_pcs_says_which_class_which_share_and_who_is_ahead_and_why():
    queue = [
        job(1, 8, 900, start_time_s=NOW - 800, gpus_on=(("n1", 8),)),  # of the second class
        job(2, 4, 700),  # of the second class too, and first come
        job(3, 2, 600),
        job(4, 1, 500),  # small ones came later
        job(5, 1, 400),
    ]
    view = decided(queue, {"1": 5_000.0, "2": 4_000.0, "3": 3_000.0, "4": 600.0, "5": 500.0}, "pcs", PCS)
    # The first class holds nothing; each that is served there is more of its share of four GPUs.
    assert [each.job_id for each in view.decision.ranked if each.pool == "vc1"] == ["4", "5", "2", "3"]
    text = said(view, "3")
    assert (
        "It is in size class 2 of 3 (up to 27.8 GPU-h; it is expected to take 2 GPUs x 50 min = 1.67 GPU-h), "
        "which owns 25.0% of the GPUs and is served first come, first served."
    ) in text
    assert any(
        line.startswith("Its class holds 12 GPUs, those asked for before it included") for line in text
    )
    assert (
        "Ahead of it: 1 of its own class, submitted before it; 2 of class 1, which has less of its share of "
        "50.0% at their turn."
    ) in text
    assert not any("ranks it (" in line for line in text)
    assert "Ahead" not in " ".join(line for line in said(view, "4") if line.startswith("Ahead of it"))


def test_whose_turn_is_next_goes_by_shares_and_is_first_come_within_a_class():
    """Greedily: the class that holds least of its share is served next."""
    queue = [job(number, 1 + number % 3, 1_000 - number) for number in range(2, 14)]
    estimates = {one.job_id: [100.0, 20_000.0, 500_000.0][int(one.job_id) % 3] for one in queue}
    running = job(1, 8, 2_000, start_time_s=NOW - 10, gpus_on=(("n1", 8),))
    view = decided([running, *queue], {**estimates, "1": 10_000.0}, "pcs", PCS)
    held, waiting = [0.0, 8.0, 0.0], [[], [], []]
    for one in queue:
        size_s = one.gpus * estimates[one.job_id]
        waiting[0 if size_s <= 1_000 else 1 if size_s <= 100_000 else 2].append(one)
    expected = []
    while any(waiting):
        loads = [
            (held[at] / PCS["weights"][at], int(waiting[at][0].job_id), at) for at in range(3) if waiting[at]
        ]
        at = min(loads)[2]
        one = waiting[at].pop(0)
        held[at] += one.gpus
        expected.append(one.job_id)
    assert [each.job_id for each in view.decision.ranked if each.pool == "vc1"] == expected
