#!/bin/bash
# scripts/kill.sh JOB: ends your processes of this job on this host, and no others. `dtrain ps` lists the jobs.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
exec "$program" kill "$@"
