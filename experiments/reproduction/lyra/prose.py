"""What the page of Lyra's evaluation says around its tables."""

OPENING = (
    "The numbers of *Lyra* (EuroSys '23) beside what public data gives: {rows:,} rows, {published} "
    "published numbers, {both} of them with one of ours, every other with the reason why not."
)
HOW = (
    "Ours are means over {windows} windows ({names}); the CSV files have the lowest and the highest "
    "of them, and the comparison's fortnight alone. Each window is a fortnight of Philly beside two "
    "weeks of a real LLM fleet's load; seeds draw which jobs are elastic, fungible or heterogeneous, "
    "and put days of the load in another order. Other fortnights have as many servers as make their "
    "jobs ask for the same share of them. What is varied one thing at a time is replayed on the first "
    "two windows, shares of elastic jobs on the first alone; figures of one column, which are read "
    "beside each other, are all of the same windows."
)
HOW_ONE = (
    "Ours are of one window ({names}): a fortnight of Philly beside two weeks of a real LLM fleet's "
    "load, without ranges; one draw of flags decides nothing. Means over several windows, resampled "
    "traces and the curves of shares are in the full evaluation, without `--quick`."
)
SCHEMES = "Lyra is the paper's (reclaiming by server fractions) where nothing else is said."
DATA = "Philly's jobs (as re-published with the Sia artifact); ServeGen's m-small as the load of inference"
REMARKS = (
    (
        "SJF alone, which the paper does not compare, stands in every table: it is Lyra's order of "
        "the queue without loans and without scaling."
    ),
    (
        "97 % of these jobs ask for one GPU: servers are easily emptied, and reclaiming is easier "
        "than ByteDance's."
    ),
    (
        "Six rules of reclaiming that hardly differ spread mean queuing by 10 % and mean JCT by 0.8 "
        "%: read differences below that as none."
    ),
    (
        "Pollux is our genetic search on goodput: throughput by the measured speed-ups of nine "
        "models, drawn by job. Its statistical efficiency follows from gradient noise, which no trace"
        " holds, and is taken as 1. The same speed-ups stand for tuned jobs; they are below linear, "
        "and public data does not say what tuning batch sizes gains."
    ),
    (
        "Table 8 of the paper has the rows of AFS and Pollux swapped: its Table 5 and its text agree "
        "with each other."
    ),
    (
        "Section 7.3 says that reclaiming preempts 1.51 and 1.36 times fewer jobs than SCF and "
        "Random; Table 5 has 1.17 and 1.40."
    ),
    "Table 10's means exceed its 95th percentiles.",
    (
        "Figure 13's preemption ratio of 0.26 % with checkpoints cannot be preemptions by "
        "submissions: whether a job keeps its progress does not change whether it is preempted."
    ),
)
