--[[
Slurm's job_submit plugin for partitions whose GPUs are shared (`shared_partitions` of the live scheduler).

Slurm puts any two jobs with shares on one GPU. While the daemon lives, a new job of such a partition waits
some seconds, so that the daemon sees it before it starts and can choose its partner; then it starts by itself.
All other jobs, and all jobs while no daemon lives, are left as they are. No other partition needs this.

To install: set the two names below, copy this file as job_submit.lua into the folder of slurm.conf on
slurmctld's machine, add `JobSubmitPlugins=lua` to slurm.conf and run `scontrol reconfigure`. Slurm's user has to
be able to read the heartbeat:  setfacl -m u:slurm:x STATE STATE/live STATE/live/CLUSTER

Whatever goes wrong in here, the job is submitted as its user asked for it.
--]]

local heartbeat = "STATE/live/CLUSTER/heartbeat.json"
local shared_partitions = {}  -- { "shared-a", "shared-b" }

-- The daemon knows its own begin times by this number (shared_partitions.py).
local new_jobs_wait_s = 47

local function daemon_lives()
    local file = io.open(heartbeat, "r")
    if file == nil then
        return false
    end
    local text = file:read(4096) or ""
    file:close()
    local at_s = tonumber(text:match('"at_s": *([%d.eE+-]+)'))
    local dead_after_s = tonumber(text:match('"dead_after_s": *([%d.eE+-]+)'))
    if at_s == nil or dead_after_s == nil then
        return false
    end
    if not text:match('"controls": *true') or not text:match('"left": *false') then
        return false
    end
    local age_s = os.time() - at_s
    return age_s > -2 and age_s <= dead_after_s
end

local function is_shared(partition)
    for _, name in ipairs(shared_partitions) do
        if partition == name then
            return true
        end
    end
    return false
end

local function partition_of(job, partitions)
    if job.partition ~= nil and job.partition ~= "" then
        return job.partition
    end
    for _, partition in pairs(partitions) do
        if partition.flag_default == 1 then
            return partition.name
        end
    end
    return nil
end

local function let_it_be_seen(job, partitions)
    if not is_shared(partition_of(job, partitions)) or not daemon_lives() then
        return
    end
    local begins_s = tonumber(job.begin_time) or 0
    local seen_s = os.time() + new_jobs_wait_s
    if begins_s <= os.time() then
        job.begin_time = seen_s
    elseif begins_s <= seen_s + 2 then
        job.begin_time = seen_s + 3  -- its user's wish, a little later: not the number that the daemon knows
    end
end

function slurm_job_submit(job, partitions, submitter)
    local fine, why = pcall(let_it_be_seen, job, partitions)
    if not fine then
        slurm.log_error("lucid: %s", tostring(why))
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, modifier)
    return slurm.SUCCESS
end

return slurm.SUCCESS
