#!/usr/bin/env python3
"""merge_plans.py FROM INTO: adds the plans of the file FROM (lib/cuda/dnn/plan_cache.h) to those of the file INTO.

Only plans that were measured are added, because dtrain does not measure what it finds in its cache. A plan that INTO has
already stays as it is. Files whose names end in .gz are compressed. It is no error if FROM does not exist; a file in
another format counts as empty.
"""
import gzip
import json
import os
import sys

FORMAT = "dtrain cuDNN plans 2"


def plans_in(path):
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            content = json.loads(file.read())
    except FileNotFoundError:
        return {}
    except (OSError, EOFError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return {}
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        print(f"{path}: not a file of this version's plans", file=sys.stderr)
        return {}
    return content["plans"]


def write(path, plans):
    text = (json.dumps({"format": FORMAT, "plans": plans}, indent=1, sort_keys=True) + "\n").encode()
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".new", "wb") as file:
        # Without the time, so that the same plans make the same file.
        file.write(gzip.compress(text, mtime=0) if path.endswith(".gz") else text)
    os.replace(path + ".new", path)


def main(source, target):
    plans = plans_in(target)
    added = {key: entry for key, entry in plans_in(source).items() if key not in plans and entry[2] is not None}
    if added:
        write(target, {**plans, **added})
        print(f"{target}: {len(added)} plans from {source}")


main(*sys.argv[1:])
