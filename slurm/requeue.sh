# shellcheck shell=bash
# Sourced by the batch scripts that train. They ask Slurm with --signal=B:USR1@120 for a signal before the time is up.

# until_done COMMAND...
# Runs the command; on USR1 puts the job back into the queue. A preempted job is put back by Slurm itself. Both
# times the command starts again with the same arguments and must continue from its checkpoint.
# scancel ends the job for good.
until_done() {
    trap 'echo "time is nearly up: back into the queue"; scontrol requeue "$SLURM_JOB_ID"' USR1
    echo "start ${SLURM_RESTART_COUNT:-0} of: $*"
    "$@" & # bash runs a trap only while it waits
    local running=$! status=0
    wait "$running" || status=$?
    while kill -0 "$running" 2>/dev/null; do # the signal ended the wait, not the command
        status=0
        wait "$running" || status=$?
    done
    return "$status"
}
