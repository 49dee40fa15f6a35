"""One measurement in a process of its own: ``python -m benchmarks.scale.child '<job as JSON>'``.

The last line on stdout is the result as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.scale.case import Case, Options
from benchmarks.scale.tasks import TASKS


def measure(job: dict[str, Any]) -> dict[str, Any]:
    case, options = Case(**job["case"]), Options(**job["options"])
    task = TASKS[job["task"]]
    return task(case, job["who"], options, folder=job["folder"], repeat=job["repeat"])


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
