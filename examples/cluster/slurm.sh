#!/bin/bash
# A training on the nodes of a Slurm job: sbatch examples/cluster/slurm.sh acct runs/acct
# ccarena and its extra `ray` are installed on every node; the run's folder is on a shared file system or a URL.
# A job that loses a node or its time is queued again, and goes on from the last checkpoint.
#SBATCH --job-name=ccarena
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# Two minutes before the end: the training writes a checkpoint, and the job is queued again.
#SBATCH --signal=B:USR1@120
set -euo pipefail

config=${1:?"usage: sbatch slurm.sh CONFIG OUT [OPTION ...]"}
out=${2:?"usage: sbatch slurm.sh CONFIG OUT [OPTION ...]"}
shift 2
port=${RAY_PORT:-6379}
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]:?"scontrol names no node of $SLURM_JOB_NODELIST"}
cores=${SLURM_CPUS_PER_TASK:-1}

srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap \
  ray start --head --port="$port" --num-cpus="$cores" --include-dashboard=false --block &
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
  # Each asks for the head until it answers.
  srun --nodes="$((SLURM_JOB_NUM_NODES - 1))" --ntasks="$((SLURM_JOB_NUM_NODES - 1))" --exclude="$head" --overlap \
    bash -c "until ray status --address '$head:$port' >/dev/null 2>&1; do sleep 2; done
             exec ray start --address '$head:$port' --num-cpus '$cores' --block" &
fi
until ray status --address "$head:$port" >/dev/null 2>&1; do sleep 2; done

# The first start trains, later ones go on.
again=(--config "$config")
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then again=(--resume); fi
ccarena train "${again[@]}" --out "$out" --executor ray --ray-address "$head:$port" "$@" &
training=$!
trap 'kill -TERM "$training"; wait "$training" || true; scontrol requeue "$SLURM_JOB_ID"; exit 0' USR1
wait "$training"
