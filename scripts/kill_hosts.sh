#!/bin/bash
# scripts/kill_hosts.sh JOB [-H FILE]: ends your processes of this job on the hosts of the file `hosts`, and no others.
# `dtrain ps -H hosts` lists the jobs.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
exec "$program" kill -H hosts "$@"
