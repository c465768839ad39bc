#!/bin/bash
# Trains with dtrain on the hosts that Grid Engine gives. Made by dtrain for qsub, which reads the options below.
#$ -S /bin/bash
#$ -N small
#$ -j y
#$ -notify
#$ -r n
#$ -o /home/u/job/sge-$JOB_ID.out
#$ -pe mpi 10

cd /home/u/job || exit 3
run_dir=$PWD/runs/lenet-"$JOB_ID"
command=(/opt/dtrain -n 3 -s 2 --network lenet --benchmark 1)
flags=(--run-dir "$run_dir")

if [ ! -x "${command[0]}" ]; then
  echo "error [start-up] $(hostname) has no executable '${command[0]}': all hosts must have it" >&2
  exit 3
fi
mkdir -p "$run_dir" || exit 3
files=$run_dir/sge-$JOB_ID

# Grid Engine sends USR1 when the time limit is near, and USR2 before it kills the job. The launcher gets TERM instead,
# and nothing of what Grid Engine sends to all processes.
(
  trap '' USR1 USR2
  exec "${command[@]}" "${flags[@]}" </dev/null
) &
pid=$!
trap 'kill -s TERM "$pid" 2>/dev/null' USR1 USR2 TERM
while kill -0 "$pid" 2>/dev/null; do
  if [ -s "$files.signal" ]; then
    read -r signal <"$files.signal"
    kill -s "$signal" "$pid"
    rm -f "$files.signal"
  fi
  sleep 1 &
  wait $!
done
wait "$pid"
code=$?
echo "$code" >"$files.new" && mv "$files.new" "$files.code"
exit "$code"
