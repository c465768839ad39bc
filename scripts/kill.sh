#!/bin/bash
# scripts/kill.sh JOB: ends what of this job of yours runs on this host, and nothing else. `dtrain ps` lists jobs.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
exec "$program" kill "$@"
