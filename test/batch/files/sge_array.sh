#!/bin/bash
# Trains with dtrain on the hosts that Grid Engine gives. Made by dtrain for qsub, which reads the options below.
#$ -S /bin/bash
#$ -N dtrain-lenet
#$ -j y
#$ -notify
#$ -r n
#$ -o /home/u/job/sge-$JOB_ID.$TASK_ID.out
#$ -t 1-3
#$ -q all.q
#$ -l h_vmem=8192M
#$ -l h_rt=7200,s_rt=7080
#$ -P vision

cd /home/u/job || exit 3
run_dir=/home/u/job/run
command=(/opt/dtrain -n 3 -s 2 --network lenet --benchmark 1 --launcher sge)
flags=(--run-dir "$run_dir")
tasks=3

if [ ! -x "${command[0]}" ]; then
  echo "error [start-up] $(hostname) has no executable '${command[0]}': all hosts must have it" >&2
  exit 3
fi
mkdir -p "$run_dir" || exit 3
files=$run_dir/sge-$JOB_ID

agent() {
  trap '' USR1 USR2 # which Grid Engine sends to all processes of a task
  exec "${command[0]}" launch-agent --meet "$files.launcher" --number $((SGE_TASK_ID - 1))
}

mkdir -p "$files.tasks" && hostname >"$files.tasks/.$SGE_TASK_ID" || exit 3
mv "$files.tasks/.$SGE_TASK_ID" "$files.tasks/$SGE_TASK_ID" || exit 3
if [ "$SGE_TASK_ID" -ne 1 ]; then
  until [ -e "$files.launcher" ]; do
    if [ -e "$files.code" ]; then exit 0; fi # the launcher has ended without it
    sleep 1
  done
  agent
fi
said=''
while :; do
  missing=''
  for ((task = 1; task <= tasks; task++)); do
    if [ ! -e "$files.tasks/$task" ]; then missing+=" $task"; fi
  done
  if [ -z "$missing" ]; then break; fi
  if [ "$missing" != "$said" ]; then echo "dtrain: waiting for tasks$missing of job $JOB_ID to start" >&2; fi
  said=$missing
  sleep 1
done
(
  until [ -e "$files.launcher" ]; do
    if [ -e "$files.code" ]; then exit 0; fi
    sleep 1
  done
  agent
) &

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
wait
rm -rf "$files.tasks" "$files.launcher"
exit "$code"
