#!/bin/bash
# scripts/kill_hosts.sh JOB [-H FILE]: ends what of this job of yours runs on the hosts of the file `hosts`, and nothing
# else. `dtrain ps -H hosts` lists jobs.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
exec "$program" kill -H hosts "$@"
